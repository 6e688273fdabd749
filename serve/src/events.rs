//! The stream of head changes. What comes too fast for a reader is left out: only the newest head counts.

use crate::routes::Shared;
use crate::watched::Watched;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures::{Stream, StreamExt as _};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio_stream::wrappers::WatchStream;

/// Proxies cut what is silent.
const ALIVE: Duration = Duration::from_secs(15);

/// One open stream; dropping it gives its place back.
struct Place(
    Arc<Shared>,
    #[expect(dead_code, reason = "held while the stream is open")] tokio::sync::OwnedSemaphorePermit,
);

impl Place {
    fn take(shared: &Arc<Shared>) -> Option<Self> {
        let permit = shared.streams.clone().try_acquire_owned().ok()?;
        shared.metrics.streams.inc();
        Some(Self(shared.clone(), permit))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.metrics.streams.dec();
    }
}

/// `None` if there are as many streams as may be.
pub(crate) fn open(shared: &Arc<Shared>) -> Option<Response> {
    let place = Place::take(shared)?;
    let stop = shared.stop.clone();
    let heads = WatchStream::new(shared.head.clone()).take_until(async move { stop.cancelled().await });
    let events = events(heads, place);
    Some(Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE)).into_response())
}

fn events(
    heads: impl Stream<Item = Option<Watched>> + Send,
    place: Place,
) -> impl Stream<Item = Result<Event, Infallible>> + Send {
    heads.filter_map(move |head| {
        let _held = &place;
        std::future::ready(head.map(|Watched { hash, sequence, step, .. }| {
            let told = serde_json::json!({ "etag": format!("\"{hash}\""), "sequence": sequence, "step": step });
            Ok(Event::default().event("head").data(told.to_string()))
        }))
    })
}
