//! `pulse key`.

use super::state::{PublisherArgs, public_path};
use crate::report::Report;
use crate::terminal::Terminal;
use clap::{Args, Subcommand};
use pulse_channel::store::{Error, SecretKey};
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key: FILE holds the secret half, FILE.pub the public one, which receivers pin
    Generate {
        /// The file to write; never over an existing one
        file: PathBuf,
    },
    /// Print the public half of a key
    Public {
        /// The secret half
        file: PathBuf,
    },
    /// Hand a channel over to another key; receivers follow by themselves
    Rotate(RotateArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    /// The channel
    channel: String,
    /// The key that signs from now on
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    #[command(flatten)]
    publisher: PublisherArgs,
}

pub(crate) fn run(command: &KeyCommand, terminal: &Terminal) -> Result<Report, Error> {
    match command {
        KeyCommand::Generate { file } => generate(file),
        KeyCommand::Public { file } => Ok(shown(&SecretKey::load(file)?, String::new())),
        KeyCommand::Rotate(args) => {
            let to = SecretKey::load(&args.to)?;
            args.publisher.open(&args.channel)?.rotate(&to, terminal)?;
            let text = format!("publish with --key {} from now on; the public key is\n", args.to.display());
            Ok(shown(&to, text))
        }
    }
}

fn generate(file: &Path) -> Result<Report, Error> {
    let key = SecretKey::generate()?;
    key.save(file)?;
    let public = public_path(file);
    let written = std::fs::write(&public, format!("{}\n", key.public()));
    written.map_err(|source| Error::Io { action: "cannot write", path: public, source })?;
    Ok(shown(&key, String::new()))
}

fn shown(key: &SecretKey, before: String) -> Report {
    Report { text: format!("{before}{}\n", key.public()), json: json!({ "public_key": key.public() }) }
}
