//! Which address gives what.

use crate::answer::{self, absent, plain};
use crate::events;
use crate::files::Folder;
use crate::metrics::{Answered, Metrics};
use crate::watched::Watched;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use pulse_channel::layout::MAX_HEAD_BYTES;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tower_http::cors::{Any, CorsLayer};

/// What all answers share.
pub(crate) struct Shared {
    pub(crate) folder: Folder,
    pub(crate) head: watch::Receiver<Option<Watched>>,
    pub(crate) requests: Semaphore,
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) metrics: Metrics,
    pub(crate) stop: CancellationToken,
}

type App = State<Arc<Shared>>;

pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/head.json", get(head))
        .route("/objects/{name}", get(object))
        .route("/history/{name}", get(page))
        .route("/events", get(stream))
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { plain(StatusCode::OK, "ok") }))
        .fallback(|| async { absent() })
        .method_not_allowed_fallback(|| async { plain(StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD or OPTIONS") })
        .layer(middleware::from_fn_with_state(shared.clone(), account))
        .layer(cors())
        .with_state(shared)
}

/// The same for everybody, also for who asks without `Origin`: a cache may give one's answer to another.
fn cors() -> CorsLayer {
    let exposed = ["content-range", "content-length", "etag", "date", "accept-ranges", "pulse-events", "retry-after"];
    CorsLayer::new()
        .allow_origin(Any)
        .allow_methods([Method::GET, Method::HEAD, Method::OPTIONS])
        .allow_headers([header::RANGE, header::IF_NONE_MATCH, header::IF_RANGE, header::CACHE_CONTROL, header::PRAGMA])
        .expose_headers(exposed.map(HeaderName::from_static))
        .allow_private_network(true)
        .max_age(Duration::from_secs(86_400))
}

/// Limits, counts, logs; the headers that every answer has.
async fn account(State(shared): App, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let (method, path) = (request.method().clone(), request.uri().path().to_string());
    let kind = match path.split('/').nth(1) {
        Some("head.json") => "head",
        Some("objects") => "object",
        Some("history") => "page",
        Some("events") => "events",
        _ => "other",
    };
    let has_body = request.headers().get(header::CONTENT_LENGTH).is_some_and(|length| length != "0")
        || request.headers().contains_key(header::TRANSFER_ENCODING);
    let mut response = match shared.requests.try_acquire() {
        _ if has_body => plain(StatusCode::PAYLOAD_TOO_LARGE, "nothing is taken here"),
        Ok(_permit) => next.run(request).await,
        Err(_) => plain(StatusCode::SERVICE_UNAVAILABLE, "too many requests at once"),
    };
    let headers = response.headers_mut();
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("cross-origin"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let status = response.status().as_u16();
    shared.metrics.requests.get_or_create(&Answered { kind, status }).inc();
    let milliseconds = began.elapsed().as_millis() as u64;
    tracing::debug!(%method, path, status, milliseconds, "answered");
    let counted = shared.clone();
    response.map(|body| {
        use futures::StreamExt as _;
        let size = http_size(&body);
        let pieces = body.into_data_stream().inspect(move |piece| {
            let sent = piece.as_ref().map_or(0, bytes::Bytes::len);
            counted.metrics.sent.inc_by(sent as u64);
        });
        if size == Some(0) { Body::empty() } else { Body::from_stream(pieces) }
    })
}

fn http_size(body: &Body) -> Option<u64> {
    use axum::body::HttpBody as _;
    body.size_hint().exact()
}

async fn head(State(shared): App, method: Method, asked: HeaderMap) -> Response {
    match shared.folder.head().await {
        Ok(Some(bytes)) if bytes.len() > MAX_HEAD_BYTES => {
            plain(StatusCode::INTERNAL_SERVER_ERROR, "head.json is longer than a head may be")
        }
        Ok(Some(bytes)) => answer::head(&method, &asked, bytes),
        Ok(None) => absent(),
        Err(error) => failed(&error),
    }
}

async fn object(State(shared): App, Path(name): Path<String>, method: Method, asked: HeaderMap) -> Response {
    immutable(shared.folder.object(&name).await, &method, &asked, "application/octet-stream").await
}

async fn page(State(shared): App, Path(name): Path<String>, method: Method, asked: HeaderMap) -> Response {
    immutable(shared.folder.page(&name).await, &method, &asked, "application/json").await
}

async fn immutable(
    found: std::io::Result<Option<crate::files::Object>>,
    method: &Method,
    asked: &HeaderMap,
    content_type: &'static str,
) -> Response {
    let answered = match found {
        Ok(Some(object)) => answer::immutable(method, asked, object, content_type).await,
        Ok(None) => Ok(absent()),
        Err(error) => Err(error),
    };
    answered.unwrap_or_else(|error| failed(&error))
}

/// Why is for the log; who asks learns that it is not his fault.
fn failed(error: &std::io::Error) -> Response {
    tracing::error!(%error, "a file cannot be read");
    plain(StatusCode::INTERNAL_SERVER_ERROR, "this file cannot be read")
}

async fn stream(State(shared): App) -> Response {
    events::open(&shared).unwrap_or_else(|| plain(StatusCode::SERVICE_UNAVAILABLE, "too many streams; poll head.json"))
}

async fn metrics(State(shared): App) -> Response {
    let text = shared.metrics.text(shared.head.borrow().as_ref());
    let mut response = plain(StatusCode::OK, text);
    let content_type = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}
