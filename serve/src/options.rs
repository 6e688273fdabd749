//! Limits.

use std::time::Duration;

/// How much a server takes on.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Connections at once; others wait to be accepted.
    pub connections: usize,
    /// Requests that are worked on at once, streams of events left out; others are answered 503.
    pub requests: usize,
    /// Streams of events at once; others are answered 503.
    pub streams: usize,
    /// How long a client may take for its request's headers, and how long it may read nothing of the answer.
    pub idle: Duration,
    /// How often the head is looked at for the stream of events.
    pub poll: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            connections: 1024,
            requests: 512,
            streams: 512,
            idle: Duration::from_secs(30),
            poll: Duration::from_millis(500),
        }
    }
}
