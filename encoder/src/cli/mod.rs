//! Arguments, progress bars, printing, exit codes. Everything that does the work is in the library.

mod apply;
mod diff;
mod encode;
mod inspect;
mod report;
mod terminal;
mod verify;

use clap::{Args, Parser, Subcommand};
use pulse_encoder::Error;
use std::num::NonZeroUsize;
use std::process::ExitCode;

/// Lossless weight patches between checkpoints.
///
/// A checkpoint is a .safetensors file, or a folder in Hugging Face layout (one .safetensors file, or shards with model.safetensors.index.json).
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
    /// Check a patch against its base, and against its target; writes nothing
    Verify(verify::VerifyArgs),
    /// Show what is in a patch
    Inspect(inspect::InspectArgs),
    /// Show what changed between two checkpoints
    Diff(diff::DiffArgs),
}

const EXIT_CODES: &str = "\
Exit codes:
    0  done
    1  input or output failed, or is not a checkpoint
    2  wrong arguments
    3  the patch is damaged or cut short
    4  the patch does not fit: wrong base, other tensors, another target
    5  unsupported version, or over a limit
  130  interrupted; nothing was written";

fn exit_code(error: &Error) -> u8 {
    match error.code() {
        "usage" | "misuse" => 2,
        "damaged" | "truncated" => 3,
        "wrong_base" | "wrong_target" | "tensors" => 4,
        "unsupported" | "limit" => 5,
        "interrupted" => 130,
        _ => 1,
    }
}

pub(crate) fn main() -> ExitCode {
    let Cli { command, common } = Cli::parse();
    let terminal = terminal::Terminal::new(common.quiet || common.json);
    // This thread works too, so that one thread means one.
    let mut pool = rayon::ThreadPoolBuilder::new().use_current_thread();
    if let Some(threads) = common.threads {
        pool = pool.num_threads(threads.get());
    }
    let work = || match &command {
        Command::Encode(args) => encode::run(args, &terminal),
        Command::Apply(args) => apply::run(args, &terminal),
        Command::Verify(args) => verify::run(args, &terminal),
        Command::Inspect(args) => inspect::run(args),
        Command::Diff(args) => diff::run(args, &terminal),
    };
    let result = match pool.build() {
        Ok(pool) => pool.install(work),
        Err(error) => {
            Err(Error::Usage(format!("cannot start {} threads: {error}", common.threads.map_or(0, NonZeroUsize::get))))
        }
    };
    terminal.finish();
    match result {
        Ok(report) => report.print(common.json),
        Err(error) => {
            report::print_error(&error, common.json);
            ExitCode::from(exit_code(&error))
        }
    }
}
