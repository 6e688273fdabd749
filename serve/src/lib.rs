//! Serves a channel's folder over HTTP, for a LAN or a test; any static host does as well.
//!
//! ```no_run
//! use pulse_serve::{ServeOptions, serve};
//! # #[tokio::main]
//! # async fn main() -> Result<(), pulse_serve::Error> {
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await.unwrap();
//! serve(listener, "run".into(), ServeOptions::default(), std::future::pending()).await
//! # }
//! ```
//!
//! It serves what a channel consists of and nothing else: `head.json`, `objects/`, `history/`; a stream of head changes at `events`, and for
//! operators `healthz` and `metrics`. Everybody may read all of it.
#![forbid(unsafe_code)]

mod answer;
mod error;
mod events;
mod files;
mod listen;
mod metrics;
mod options;
mod routes;
mod watched;

pub use error::Error;
pub use listen::{run, serve};
pub use options::ServeOptions;
