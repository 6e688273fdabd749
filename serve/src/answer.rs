//! Answers: exact ranges of immutable bytes, as they are, whatever a client would have them compressed to.

use crate::files::Object;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use headers::{ETag, HeaderMapExt as _, IfNoneMatch, IfRange, Range};
use pulse_channel::Hash;
use std::io::SeekFrom;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use tokio_util::io::ReaderStream;

/// Bytes of a file in memory at once, for each answer.
const PIECE: usize = 64 << 10;
const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// An answer of one line, which nobody keeps.
pub(crate) fn plain(status: StatusCode, text: impl Into<String>) -> Response<Body> {
    let mut response = Response::new(Body::from(text.into() + "\n"));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    }
    response
}

/// Not there now; it may be soon, so nobody is to remember.
pub(crate) fn absent() -> Response<Body> {
    plain(StatusCode::NOT_FOUND, "not found")
}

pub(crate) fn etag(hash: &Hash) -> Option<ETag> {
    format!("\"{hash}\"").parse().ok()
}

/// The head, which changes.
pub(crate) fn head(method: &Method, asked: &HeaderMap, bytes: Vec<u8>) -> Response<Body> {
    let tag = etag(&pulse_channel::hash(&bytes));
    let length = bytes.len();
    let body = if method == Method::HEAD { Body::empty() } else { Body::from(bytes) };
    let mut response = if is_known(asked, tag.as_ref()) { not_modified() } else { Response::new(body) };
    let known = response.status() == StatusCode::NOT_MODIFIED;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("pulse-events", HeaderValue::from_static("events"));
    if !known {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
    if let Some(tag) = tag {
        headers.typed_insert(tag);
    }
    response
}

fn is_known(asked: &HeaderMap, tag: Option<&ETag>) -> bool {
    let known = asked.typed_get::<IfNoneMatch>().zip(tag);
    known.is_some_and(|(known, tag)| !known.precondition_passes(tag))
}

fn not_modified() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response
}

/// What of a file is asked for.
enum Part {
    Whole,
    /// First byte and length.
    Some(u64, u64),
    /// Nothing that is there.
    Outside,
}

impl Part {
    /// One range is given exactly. Several at once, other units and what is no range get the whole, as HTTP allows.
    fn of(asked: &HeaderMap, bytes: u64, tag: Option<&ETag>) -> Self {
        let Some(text) = asked.get(header::RANGE).and_then(|range| range.to_str().ok()) else { return Self::Whole };
        let changed = asked.typed_get::<IfRange>().is_some_and(|known| known.is_modified(tag, None));
        let Some(Ok(parsed)) = (!changed).then(|| http_range_header::parse_range_header(text)) else {
            return Self::Whole;
        };
        if asked.typed_get::<Range>().is_none() {
            return Self::Whole;
        }
        match parsed.validate(bytes).as_deref() {
            Ok([range]) => Self::Some(*range.start(), range.end() - range.start() + 1),
            Ok(_) => Self::Whole,
            Err(_) if text.contains(',') => Self::Whole,
            Err(_) => Self::Outside,
        }
    }
}

/// An object or a page, which never changes.
pub(crate) async fn immutable(
    method: &Method,
    asked: &HeaderMap,
    object: Object,
    content_type: &'static str,
) -> std::io::Result<Response<Body>> {
    let Object { mut file, bytes, hash } = object;
    let tag = etag(&hash);
    let mut response = if is_known(asked, tag.as_ref()) {
        not_modified()
    } else {
        let part = Part::of(asked, bytes, tag.as_ref());
        let (status, start, length) = match part {
            Part::Whole => (StatusCode::OK, 0, bytes),
            Part::Some(start, length) => (StatusCode::PARTIAL_CONTENT, start, length),
            Part::Outside => (StatusCode::RANGE_NOT_SATISFIABLE, 0, 0),
        };
        let body = if method == Method::HEAD || length == 0 {
            Body::empty()
        } else {
            file.seek(SeekFrom::Start(start)).await?;
            Body::from_stream(ReaderStream::with_capacity(file.take(length), PIECE))
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let range = match status {
            StatusCode::PARTIAL_CONTENT => Some(format!("bytes {start}-{}/{bytes}", start + length - 1)),
            StatusCode::RANGE_NOT_SATISFIABLE => Some(format!("bytes */{bytes}")),
            _ => None,
        };
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_LENGTH, length.into());
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        if let Some(range) = range.and_then(|range| HeaderValue::try_from(range).ok()) {
            headers.insert(header::CONTENT_RANGE, range);
        }
        response
    };
    let headers = response.headers_mut();
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(IMMUTABLE));
    if let Some(tag) = tag {
        headers.typed_insert(tag);
    }
    Ok(response)
}
