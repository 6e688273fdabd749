//! Which key, and where a publisher's state lies.

use clap::Args;
use pulse_channel::store::{Error, PublishOptions, Publisher, SecretKey, StoreOptions};
use pulse_channel::{PublicKey, hash};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What every publishing verb takes.
#[derive(Debug, Args)]
pub(crate) struct PublisherArgs {
    /// The secret key that signs, as `pulse key generate` wrote it
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// Where the base of the next patch, prepared objects and notes lie [default: a folder of the channel's own, below $XDG_STATE_HOME/pulse or ~/.local/state/pulse]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// A head expires after so many hours, unless a newer one comes; receivers then say that they are stale
    #[arg(long, default_value_t = 24, value_name = "HOURS", value_parser = clap::value_parser!(u64).range(1..=87_600))]
    pub(crate) expires: u64,
}

impl PublisherArgs {
    /// The options that these arguments give.
    pub(crate) fn options(&self, channel: &str) -> Result<PublishOptions, Error> {
        let state = match &self.state {
            Some(state) => state.clone(),
            None => default_state(channel)?,
        };
        Ok(PublishOptions { expires: self.expires * 3600, ..PublishOptions::new(state) })
    }

    pub(crate) fn secret(&self) -> Result<SecretKey, Error> {
        SecretKey::load(&self.key)
    }

    pub(crate) fn open(&self, channel: &str) -> Result<Publisher, Error> {
        Publisher::open(channel, self.secret()?, self.options(channel)?)
    }
}

/// A folder for each channel, so that nobody has to think of one.
fn default_state(channel: &str) -> Result<PathBuf, Error> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || variable("HOME").or_else(|| variable("USERPROFILE")).map(|home| home.join(".local/state"));
    let Some(base) = variable("XDG_STATE_HOME").or_else(home) else {
        return Err(Error::Usage("say where the publisher's state lies: --state DIR".into()));
    };
    // A folder is the same however it was named, also before it exists.
    let name = match channel.contains("://") {
        true => channel.trim_end_matches('/').to_string(),
        false => std::path::absolute(channel).unwrap_or_else(|_| channel.into()).to_string_lossy().into_owned(),
    };
    let hash = hash(name.as_bytes()).to_string();
    Ok(base.join("pulse").join(hash.get(..16).unwrap_or(&hash)))
}

/// A public key: 64 hex digits, or a file that holds them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PinnedKey(pub(crate) PublicKey);

impl FromStr for PinnedKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = |text: &str| text.trim().parse::<PublicKey>();
        if let Ok(key) = parse(text) {
            return Ok(Self(key));
        }
        let read = std::fs::metadata(text)
            .ok()
            .filter(|file| file.len() < 1024)
            .and_then(|_| std::fs::read_to_string(text).ok());
        match read.map(|text| parse(&text)) {
            Some(Ok(key)) => Ok(Self(key)),
            Some(Err(_)) => Err("this file does not hold the 64 hex digits of a public key".into()),
            None => Err("neither the 64 hex digits of a public key nor a file that holds them".into()),
        }
    }
}

/// Where the public half of the key file `secret` is written.
pub(crate) fn public_path(secret: &Path) -> PathBuf {
    let mut name = secret.as_os_str().to_os_string();
    name.push(".pub");
    name.into()
}

/// How a channel is reached, by readers.
pub(crate) fn reading() -> StoreOptions {
    StoreOptions::default()
}
