//! `pulse renew`.

use super::state::PublisherArgs;
use crate::report::Report;
use crate::terminal::Terminal;
use clap::Args;
use pulse_channel::store::Error;
use serde_json::json;

#[derive(Debug, Args)]
pub(crate) struct RenewArgs {
    /// The channel
    channel: String,
    #[command(flatten)]
    publisher: PublisherArgs,
}

pub(crate) fn run(args: &RenewArgs, terminal: &Terminal) -> Result<Report, Error> {
    let expires = args.publisher.open(&args.channel)?.renew(terminal)?;
    Ok(Report { text: format!("the head expires at {expires}\n"), json: json!({ "expires": expires }) })
}
