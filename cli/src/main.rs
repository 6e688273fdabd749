//! The command line tool `pulse`.
#![forbid(unsafe_code)]

mod apply;
mod channel;
mod commands;
mod diff;
mod encode;
mod failure;
mod inspect;
mod pack;
mod report;
mod terminal;
mod verify;

fn main() -> std::process::ExitCode {
    commands::main()
}
