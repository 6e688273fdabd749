//! Every developer command of the project: `cargo xtask <verb>`, listed by `cargo xtask --help`.
#![forbid(unsafe_code)]

use clap::Parser;
use std::process::ExitCode;

mod chain;
mod checks;
mod cross;
mod demo;
mod fuzz;
mod install;
mod lint;
mod metadata;
mod packages;
mod process;
mod pulse;
mod runtimes;
mod soak;
mod steps;
mod test;
mod wasm;
mod workspace;

#[derive(Parser)]
#[command(bin_name = "cargo xtask", about = "Every developer command of the project", version)]
enum Verb {
    Test(test::Args),
    Lint(lint::Args),
    Fuzz(fuzz::Args),
    Chain(chain::Args),
    Demo(demo::Args),
    Wasm(wasm::Args),
    Runtimes(runtimes::Args),
    Packages(packages::Args),
    Cross(cross::Args),
    Soak(soak::Args),
}

fn main() -> ExitCode {
    let result = match Verb::parse() {
        Verb::Test(args) => test::run(&args),
        Verb::Lint(args) => lint::run(&args),
        Verb::Fuzz(args) => fuzz::run(&args),
        Verb::Chain(args) => chain::run(&args),
        Verb::Demo(args) => demo::run(&args),
        Verb::Wasm(args) => wasm::run(&args),
        Verb::Runtimes(args) => runtimes::run(&args),
        Verb::Packages(args) => packages::run(&args),
        Verb::Cross(args) => cross::run(&args),
        Verb::Soak(args) => soak::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
