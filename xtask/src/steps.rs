//! A run made of named, timed steps, with a summary at its end.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::process;

/// Runs steps in order; after the first failure the others are not run, unless told to keep going.
pub(crate) struct Steps {
    keep_going: bool,
    skipped: Vec<&'static str>,
    done: Vec<Step>,
}

struct Step {
    name: &'static str,
    wall: Duration,
    /// What the programs that it ran took of all processors together: on a machine that others use too, it says more than `wall`.
    cpu: Option<Duration>,
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    Skipped,
    NotRun,
}

impl Outcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "ok",
            Self::Failed => "FAILED",
            Self::Skipped => "SKIPPED",
            Self::NotRun => "not run",
        }
    }
}

impl Steps {
    pub(crate) fn new(keep_going: bool, skipped: Vec<&'static str>) -> Self {
        Self { keep_going, skipped, done: Vec::new() }
    }

    pub(crate) fn run(&mut self, name: &'static str, step: impl FnOnce() -> Result<()>) {
        let (start, cpu_before) = (Instant::now(), process::cpu_time_of_children());
        let outcome = if self.skipped.contains(&name) {
            println!("\n== {name}: SKIPPED, because --skip {name} was given");
            Outcome::Skipped
        } else if self.failed() > 0 && !self.keep_going {
            Outcome::NotRun
        } else {
            println!("\n== {name}");
            match step() {
                Ok(()) => Outcome::Passed,
                Err(error) => {
                    println!("== {name} FAILED: {error:#}");
                    Outcome::Failed
                }
            }
        };
        let cpu = process::cpu_time_of_children().zip(cpu_before).map(|(after, before)| after - before);
        self.done.push(Step { name, wall: start.elapsed(), cpu, outcome });
    }

    /// Whether a step has been run, and well.
    pub(crate) fn passed(&self, name: &str) -> bool {
        self.done.iter().any(|step| step.name == name && step.outcome == Outcome::Passed)
    }

    /// Prints the summary; an error if any step failed.
    pub(crate) fn finish(self) -> Result<()> {
        println!("\n{}", self.summary());
        match self.failed() {
            0 => Ok(()),
            failed => bail!("{failed} of {} steps failed", self.done.len()),
        }
    }

    fn failed(&self) -> usize {
        self.done.iter().filter(|step| step.outcome == Outcome::Failed).count()
    }

    fn summary(&self) -> String {
        let line = |name: &str, wall: Duration, cpu: Option<Duration>, outcome: &str| {
            let cpu = cpu.map_or_else(|| "?".to_owned(), |cpu| format!("{:.1}", cpu.as_secs_f64()));
            format!("{name:<10} {:>8.1} {cpu:>11}  {outcome}", wall.as_secs_f64()).trim_end().to_owned()
        };
        let mut lines = vec![format!("{:<10} {:>8} {:>11}  result", "step", "seconds", "CPU seconds")];
        lines.extend(self.done.iter().map(|step| line(step.name, step.wall, step.cpu, step.outcome.as_str())));
        let wall = self.done.iter().map(|step| step.wall).sum();
        let cpu = self.done.iter().map(|step| step.cpu).sum();
        lines.push(line("total", wall, cpu, ""));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(keep_going: bool) -> (Vec<Outcome>, Result<()>) {
        let mut steps = Steps::new(keep_going, vec!["second"]);
        steps.run("first", || Ok(()));
        steps.run("second", || panic!("a skipped step was run"));
        steps.run("third", || bail!("it broke"));
        steps.run("fourth", || Ok(()));
        assert_eq!(["first", "second", "third", "fifth"].map(|name| steps.passed(name)), [true, false, false, false]);
        let outcomes = steps.done.iter().map(|step| step.outcome).collect();
        (outcomes, steps.finish())
    }

    #[test]
    fn the_first_failure_stops_the_run() {
        let (found, result) = outcomes(false);
        assert_eq!(found, [Outcome::Passed, Outcome::Skipped, Outcome::Failed, Outcome::NotRun]);
        assert_eq!(result.unwrap_err().to_string(), "1 of 4 steps failed");
    }

    #[test]
    fn keeping_going_runs_the_rest_and_still_fails() {
        let (found, result) = outcomes(true);
        assert_eq!(found, [Outcome::Passed, Outcome::Skipped, Outcome::Failed, Outcome::Passed]);
        assert!(result.is_err());
    }

    #[test]
    fn the_summary_names_every_step() {
        let mut steps = Steps::new(false, vec!["wasm"]);
        steps.run("fmt", || Ok(()));
        steps.run("wasm", || Ok(()));
        let summary = steps.summary();
        let lines: Vec<_> = summary.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
        assert_eq!(lines[1], ["fmt", "0.0", "0.0", "ok"]);
        assert_eq!(lines[2], ["wasm", "0.0", "0.0", "SKIPPED"]);
        assert_eq!(lines[3], ["total", "0.0", "0.0"]);
    }
}
