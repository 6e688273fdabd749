//! A run made of named, timed steps, with a summary at its end.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Runs steps in order; after the first failure the others are not run, unless told to keep going.
pub(crate) struct Steps {
    keep_going: bool,
    skipped: Vec<&'static str>,
    done: Vec<(&'static str, Duration, Outcome)>,
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
        let start = Instant::now();
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
        self.done.push((name, start.elapsed(), outcome));
    }

    /// Whether a step has been run, and well.
    pub(crate) fn passed(&self, name: &str) -> bool {
        self.done.iter().any(|(done, _, outcome)| *done == name && *outcome == Outcome::Passed)
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
        self.done.iter().filter(|(.., outcome)| *outcome == Outcome::Failed).count()
    }

    fn summary(&self) -> String {
        let mut text = format!("{:<10} {:>8}  result\n", "step", "seconds");
        for (name, time, outcome) in &self.done {
            text += &format!("{name:<10} {:>8.1}  {}\n", time.as_secs_f64(), outcome.as_str());
        }
        let total: Duration = self.done.iter().map(|(_, time, _)| *time).sum();
        text + &format!("{:<10} {:>8.1}", "total", total.as_secs_f64())
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
        let outcomes = steps.done.iter().map(|(.., outcome)| *outcome).collect();
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
        assert_eq!(lines[1], ["fmt", "0.0", "ok"]);
        assert_eq!(lines[2], ["wasm", "0.0", "SKIPPED"]);
        assert_eq!(lines[3], ["total", "0.0"]);
    }
}
