//! Who is told of new weights: a command, a web server.

use pulse_channel::store::{Error, post_json};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long a server may take to answer.
const ANSWER: Duration = Duration::from_secs(300);

/// A step that somebody is to be told of.
pub(crate) struct News<'a> {
    pub(crate) step: u64,
    pub(crate) file: &'a Path,
    pub(crate) channel: &'a str,
}

impl News<'_> {
    fn json(&self) -> Value {
        json!({ "step": self.step, "file": self.file, "channel": self.channel })
    }
}

/// Runs `command` by the shell, with the news in its environment; its output goes to standard error, which is not for programs.
pub(crate) fn exec(command: &str, news: &News<'_>) -> Result<(), Error> {
    let (shell, flag) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
    let mut child = Command::new(shell);
    child.arg(flag).arg(command).stdin(Stdio::null()).stdout(std::io::stderr());
    child.env("PULSE_STEP", news.step.to_string()).env("PULSE_FILE", news.file).env("PULSE_CHANNEL", news.channel);
    let failed = |why: String| Error::Store { action: "run", place: format!("--exec {command:?}"), why };
    match child.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(status.to_string())),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Posts the news to `url`.
pub(crate) fn post(url: &str, news: &News<'_>) -> Result<(), Error> {
    post_json(url, news.json().to_string(), ANSWER)
}
