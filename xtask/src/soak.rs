//! `cargo xtask soak`

use anyhow::Result;

use crate::process::{self, cargo};
use crate::workspace;

/// Kill publishers and followers for as long as it takes
///
/// What `cargo xtask test` does 200 times each, at length: whoever is killed goes on by itself, and holds some published step in between.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How often each is killed
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    kills: u32,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut command = cargo();
    command.args([
        "test",
        "--release",
        "--package",
        "pulse-tests",
        "--test",
        "it",
        "channel_kills::",
        "--",
        "--nocapture",
    ]);
    process::run(command.env("PULSE_KILLS", args.kills.to_string()).current_dir(workspace::root()))?;
    println!("publisher and follower were killed {} times each", args.kills);
    Ok(())
}
