//! Running other programs.

use std::env;
use std::fmt::Write;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::workspace;

/// `cargo` in the workspace's root, as if it had been called from a shell.
pub(crate) fn cargo() -> Command {
    let mut command = program("cargo");
    // `cargo xtask` itself runs under cargo. Left in place, CARGO would make a nested `cargo +nightly` call this
    // cargo's toolchain again.
    for (name, _) in env::vars_os() {
        let name_text = name.to_string_lossy();
        if name_text == "CARGO" || name_text.starts_with("CARGO_PKG_") || name_text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// A program on the PATH, to be run in the workspace's root.
pub(crate) fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.current_dir(workspace::root());
    command
}

/// Runs to the end, its output going where ours goes, after a line that says what is run.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", shown(command));
    let status = command.status().with_context(|| format!("cannot start {}", command.get_program().display()))?;
    if !status.success() {
        bail!("{} ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs silently and returns what it wrote to stdout; what it wrote to stderr is in the error, if it fails.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {}", command.get_program().display()))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{} ended with {}\n{}", shown(command), output.status, stderr.trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| format!("{} did not write UTF-8", shown(command)))
}

/// Whether it runs and ends well; silent.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// What all programs that were run, and those that they ran, have taken of the processors; `None` where the system does not say.
pub(crate) fn cpu_time_of_children() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // In proc_pid_stat(5) these are fields 16 and 17, in hundredths of a second. Field 2, a name in parentheses, may hold spaces.
    let (_, from_third) = stat.rsplit_once(") ")?;
    let mut times = from_third.split(' ').skip(13).map_while(|ticks| ticks.parse::<u64>().ok());
    Some(Duration::from_millis(10 * (times.next()? + times.next()?)))
}

fn shown(command: &Command) -> String {
    let mut text = String::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            let _ = write!(text, "{}={:?} ", name.display(), value.to_string_lossy());
        }
    }
    text.push_str(&command.get_program().to_string_lossy());
    for argument in command.get_args() {
        let argument = argument.to_string_lossy();
        if argument.is_empty() || argument.contains(char::is_whitespace) {
            let _ = write!(text, " {argument:?}");
        } else {
            let _ = write!(text, " {argument}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = program("cargo");
        command.env("RUSTDOCFLAGS", "-D warnings").env_remove("CARGO").args(["doc", "a b"]);
        assert_eq!(shown(&command), r#"RUSTDOCFLAGS="-D warnings" cargo doc "a b""#);
    }

    #[test]
    fn failure_carries_what_the_program_said() {
        let error = output(program("sh").args(["-c", "echo because >&2; exit 3"])).unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.ends_with("because"), "{error}");
        assert!(!succeeds(&mut program("no-such-program-anywhere")));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_programs_take_is_counted() {
        let before = cpu_time_of_children().unwrap();
        run(program("sh").args(["-c", "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done"])).unwrap();
        let after = cpu_time_of_children().unwrap();
        assert!(after > before && after < before + Duration::from_secs(60), "{before:?}, {after:?}");
    }
}
