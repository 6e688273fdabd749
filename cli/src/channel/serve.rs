//! `pulse serve`.

use crate::report::{Report, event};
use crate::terminal::Terminal;
use clap::Args;
use pulse_encoder::Progress;
use pulse_serve::{Error, ServeOptions};
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The channel's folder
    folder: PathBuf,
    /// Where to listen; 0.0.0.0:8080 serves the whole network
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS")]
    listen: String,
    /// Connections at once; others wait
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// End a connection that asks or reads nothing for so many seconds
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    idle: u64,
}

pub(crate) fn run(args: &ServeArgs, as_json: bool, terminal: &Terminal) -> Result<Report, Error> {
    let options = ServeOptions {
        connections: args.connections as usize,
        idle: Duration::from_secs(args.idle),
        ..ServeOptions::default()
    };
    let ready = |address: SocketAddr| {
        let url = format!("http://{address}/");
        let text = format!("serving {} at {url}\n", args.folder.display());
        // Whoever started this and reads nothing is served all the same.
        let _ = event(as_json, &text, &json!({ "event": "serving", "url": url }));
    };
    terminal.start(0);
    pulse_serve::run(&args.listen, &args.folder, options, ready, || terminal.is_cancelled())?;
    Ok(Report { text: String::new(), json: json!({ "event": "ended" }) })
}
