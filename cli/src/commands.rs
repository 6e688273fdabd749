//! Arguments, progress bars, printing, exit codes. Everything that does the work is in the libraries.

use crate::failure::AnyFailure;
use crate::{apply, channel, diff, encode, inspect, pack, report, terminal, verify};
use clap::{Args, Parser, Subcommand};
use pulse_encoder::{Error, is_standard_output};
use std::io::Write;
use std::num::NonZeroUsize;
use std::process::ExitCode;

/// Lossless weight patches between checkpoints.
///
/// A checkpoint is a .safetensors file, or a folder in Hugging Face layout (one .safetensors file, or shards with model.safetensors.index.json).
/// `-` in place of a patch is standard input, as an output standard output.
#[derive(Debug, Parser)]
#[command(name = "pulse", version, after_help = EXIT_CODES, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Common {
    /// Print one JSON object instead of text; errors too
    #[arg(long, global = true)]
    json: bool,
    /// Worker threads [default: one per CPU]
    #[arg(long, global = true, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Show no progress bar
    #[arg(long, short, global = true)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make the patch from one checkpoint to the next
    Encode(encode::EncodeArgs),
    /// Rebuild the target from a patch and its base
    Apply(apply::ApplyArgs),
    /// Make an anchor: the tensors of a whole checkpoint in about two thirds of their size
    Pack(pack::PackArgs),
    /// Write the tensors of an anchor as one .safetensors file
    Unpack(pack::UnpackArgs),
    /// Check a patch against its base, or an anchor, and against its target; writes nothing
    Verify(verify::VerifyArgs),
    /// Show what is in a patch
    Inspect(inspect::InspectArgs),
    /// Show what changed between two checkpoints
    Diff(diff::DiffArgs),
    /// Publish a checkpoint as a step of a channel
    Publish(channel::publish::PublishArgs),
    /// Publish checkpoints as a trainer writes them
    Watch(channel::watch::WatchArgs),
    /// Serve a channel's folder over HTTP
    Serve(channel::serve::ServeArgs),
    /// Keep a checkpoint at a channel's newest step
    Follow(channel::follow::FollowArgs),
    /// Show what a channel holds, and what it costs to join
    Status(channel::status::StatusArgs),
    /// Renew a channel's head before it expires, without a step
    Renew(channel::renew::RenewArgs),
    /// Delete what a channel no longer promises
    Gc(channel::gc::GcArgs),
    /// Make and change the keys that sign a channel
    #[command(subcommand)]
    Key(channel::key::KeyCommand),
}

impl Command {
    /// Whether the result itself goes to standard output; what else there is to say then goes to standard error.
    fn takes_standard_output(&self) -> bool {
        match self {
            Self::Encode(encode::EncodeArgs { output, .. })
            | Self::Apply(apply::ApplyArgs { output, .. })
            | Self::Pack(pack::PackArgs { output, .. })
            | Self::Unpack(pack::UnpackArgs { output, .. }) => is_standard_output(output),
            _ => false,
        }
    }
}

const EXIT_CODES: &str = "\
Exit codes:
    0  done
    1  input or output failed, or is not a checkpoint
    2  wrong arguments
    3  the patch is damaged or cut short
    4  the patch does not fit: wrong base, other tensors, another target
    5  unsupported version, or over a limit
    6  the channel is not to be believed as it is served: signature, key, rollback, expiry
  130  interrupted; nothing was written";

pub(crate) fn main() -> ExitCode {
    let Cli { command, common } = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and version come this way too.
        Err(error) => {
            let printed = error.print().and_then(|()| std::io::stdout().flush());
            return report::printed(printed, ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)));
        }
    };
    #[cfg(unix)]
    pulse_encoder::guard_maps(match (common.json, command.takes_standard_output()) {
        (false, _) => |error| report::error_text(error),
        (true, false) => |error| report::error_json(error),
        (true, true) => |error| (2, report::error_json(error).1),
    });
    start_log(common.json);
    let terminal = terminal::Terminal::new(common.quiet || common.json);
    let result = run(&command, &common, &terminal);
    terminal.finish();
    match result {
        Ok(report) => report.print(common.json, command.takes_standard_output()),
        Err(error) => {
            report::print_error(&*error, common.json, command.takes_standard_output());
            ExitCode::from(error.exit_code())
        }
    }
}

/// What the libraries log goes to standard error, as much of it as `PULSE_LOG` asks for: warnings, if it says nothing.
fn start_log(as_json: bool) {
    let filter = tracing_subscriber::EnvFilter::builder()
        .with_default_directive(tracing_subscriber::filter::LevelFilter::WARN.into())
        .with_env_var("PULSE_LOG")
        .from_env_lossy();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    if as_json { log.json().init() } else { log.init() }
}

fn run(command: &Command, common: &Common, terminal: &terminal::Terminal) -> Result<report::Report, AnyFailure> {
    // This thread works too, so that one thread means one.
    let mut pool = rayon::ThreadPoolBuilder::new().use_current_thread();
    if let Some(threads) = common.threads {
        pool = pool.num_threads(threads.get());
    }
    let pool = pool.build().map_err(|error| {
        Error::Usage(format!("cannot start {} threads: {error}", common.threads.map_or(0, NonZeroUsize::get)))
    })?;
    let as_json = common.json;
    let report = pool.install(|| -> Result<report::Report, AnyFailure> {
        Ok(match command {
            Command::Encode(args) => encode::run(args, terminal)?,
            Command::Apply(args) => apply::run(args, terminal)?,
            Command::Pack(args) => pack::pack(args, terminal)?,
            Command::Unpack(args) => pack::unpack(args, terminal)?,
            Command::Verify(args) => verify::run(args, terminal)?,
            Command::Inspect(args) => inspect::run(args)?,
            Command::Diff(args) => diff::run(args, terminal)?,
            Command::Publish(args) => channel::publish::run(args, terminal)?,
            Command::Watch(args) => channel::watch::run(args, as_json, terminal)?,
            Command::Serve(args) => channel::serve::run(args, as_json, terminal)?,
            Command::Follow(args) => channel::follow::run(args, as_json, terminal)?,
            Command::Status(args) => channel::status::run(args)?,
            Command::Renew(args) => channel::renew::run(args, terminal)?,
            Command::Gc(args) => channel::gc::run(args, terminal)?,
            Command::Key(command) => channel::key::run(command, terminal)?,
        })
    })?;
    Ok(report)
}
