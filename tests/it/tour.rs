//! The README's tour, run as it is printed.

use crate::support::binary::pulse;
use crate::support::workspace;
use pulse_tests::fixtures::{ChainName, ExcerptChain};
use std::path::Path;
use std::process::Command;

/// A command of the tour, and what the README prints below it.
struct Shown {
    command: String,
    output: String,
}

fn tour() -> Vec<Shown> {
    let text = std::fs::read_to_string(workspace().join("README.md")).unwrap();
    let mut shown: Vec<Shown> = Vec::new();
    for block in text.split("```console\n").skip(1) {
        for line in block.split("```").next().unwrap().lines() {
            match line.strip_prefix("$ ") {
                Some(command) => shown.push(Shown { command: command.to_string(), output: String::new() }),
                None => shown.last_mut().unwrap().output += &format!("{line}\n"),
            }
        }
    }
    shown
}

/// Times and keys differ in every run; all else has to be as printed.
fn settled(text: &str) -> String {
    let word = |word: &str| {
        let (core, rest) = word.split_at(word.trim_end_matches([',', ';']).len());
        let hex = core.len() == 64 && core.bytes().all(|letter| letter.is_ascii_hexdigit());
        let time = core.len() == 20 && core.ends_with('Z') && core.contains('T');
        let seconds = core.split_once('.').is_some_and(|(_, cents)| cents.len() == 2 && core.parse::<f64>().is_ok());
        match () {
            () if hex => format!("KEY{rest}"),
            () if time => format!("TIME{rest}"),
            () if seconds => format!("SECONDS{rest}"),
            () => word.to_string(),
        }
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ");
    // How long ago something was: a slow machine may need a second.
    let line = |text: &str| {
        let line = line(text);
        ["0", "1", "2", "3", "4", "5"].iter().fold(line, |line, number| {
            let ago = line.replace(&format!(", {number} s after it"), ", N s after it");
            ago.replace(&format!(", {number} s ago"), ", N s ago").replace("expires in 23 h", "expires in 24 h")
        })
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn run(folder: &Path, command: &str) -> String {
    let path = std::env::join_paths(
        std::iter::once(pulse().parent().unwrap().to_path_buf())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    // Both outputs in the order in which they came, as on a terminal.
    let output = Command::new("sh")
        .args(["-c", &format!("{command} 2>&1")])
        .env("PATH", path.unwrap())
        .env("XDG_STATE_HOME", folder.join("state"))
        .current_dir(folder)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[cfg(unix)]
#[test]
fn every_command_prints_what_the_readme_says() {
    let folder = tempfile::tempdir().unwrap();
    let chain = ExcerptChain::load(ChainName::Mature);
    for step in 24..=26 {
        std::fs::write(folder.path().join(format!("step_{step}.safetensors")), chain.step_bytes(step)).unwrap();
    }
    let tour = tour();
    assert!(tour.len() >= 14, "{} commands", tour.len());
    for Shown { command, output } in tour {
        let found = run(folder.path(), &command);
        // Some are shortened: what is shown of them has to be there, from the beginning.
        let (found, output) = (settled(&found), settled(&output));
        assert!(
            !output.is_empty() && found.starts_with(&output),
            "$ {command}\n{found}\n--- the README says\n{output}"
        );
    }
}
