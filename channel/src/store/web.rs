//! A channel on a web server, to read only.

use super::clock::http_date;
use super::error::Error;
use super::place::{Listed, Place, Read, Small, Tag, Wanted};
use super::told::Events;
use futures::StreamExt as _;
use pulse_encoder::Progress;
use reqwest::header::{self, HeaderMap};
use reqwest::{Client, Response, StatusCode, redirect};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use url::Url;

/// How long a listener waits before it asks whether to stop.
const ASK: Duration = Duration::from_millis(200);

pub(crate) struct Web {
    runtime: Arc<Runtime>,
    client: Client,
    root: Url,
    shown: String,
    idle: Duration,
}

impl Web {
    pub(crate) fn new(runtime: Arc<Runtime>, root: Url, shown: String, idle: Duration) -> Result<Self, Error> {
        const MOST_REDIRECTS: usize = 10;
        // reqwest leaves credentials behind at another host by itself.
        let policy = redirect::Policy::custom(|attempt| {
            let from = attempt.previous().last().map_or("", Url::scheme);
            if from == "https" && attempt.url().scheme() != "https" {
                attempt.error("a redirect from https to plain http is not followed")
            } else if attempt.previous().len() > MOST_REDIRECTS {
                attempt.error("more than 10 redirects")
            } else {
                attempt.follow()
            }
        });
        let agent = concat!("pulse/", env!("CARGO_PKG_VERSION"));
        let client = Client::builder().redirect(policy).user_agent(agent).connect_timeout(idle).referer(false).build();
        let client = client.map_err(|error| Error::Usage(format!("cannot set up HTTP: {error}")))?;
        Ok(Self { runtime, client, root, shown, idle })
    }

    fn place(&self, path: &str) -> String {
        format!("{}/{path}", self.shown)
    }

    fn url(&self, path: &str) -> Url {
        let mut url = self.root.clone();
        url.set_path(&format!("{}{path}", self.root.path()));
        url
    }

    fn failed(&self, action: &'static str, path: &str, error: reqwest::Error) -> Error {
        // Its address may carry a token.
        let error = error.without_url();
        let mut why = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            why = format!("{why}: {cause}");
            source = cause.source();
        }
        Error::Store { action, place: self.place(path), why }
    }

    fn silent(&self, action: &'static str, path: &str) -> Error {
        let why = format!("no answer within {} s", self.idle.as_secs());
        Error::Store { action, place: self.place(path), why }
    }

    async fn get(&self, path: &str, headers: HeaderMap) -> Result<Response, Error> {
        let request = self.client.get(self.url(path)).headers(headers);
        let sent = timeout(self.idle, request.send()).await.map_err(|_| self.silent("fetch", path))?;
        sent.map_err(|error| self.failed("fetch", path, error))
    }

    /// The next piece of a body; `None` at its end.
    async fn next(
        &self,
        path: &str,
        body: &mut (impl futures::Stream<Item = reqwest::Result<bytes::Bytes>> + Unpin),
    ) -> Result<Option<bytes::Bytes>, Error> {
        match timeout(self.idle, body.next()).await {
            Err(_) => Err(self.silent("go on fetching", path)),
            Ok(None) => Ok(None),
            Ok(Some(piece)) => piece.map(Some).map_err(|error| self.failed("go on fetching", path, error)),
        }
    }

    fn refuse(&self, path: &str, status: StatusCode) -> Error {
        match status {
            StatusCode::NOT_FOUND | StatusCode::GONE => Error::Missing { place: self.place(path) },
            StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => {
                Error::Denied { action: "read", place: self.place(path) }
            }
            status => {
                Error::Store { action: "fetch", place: self.place(path), why: format!("the server answered {status}") }
            }
        }
    }

    async fn listen(&self, path: &str, known: Option<&Tag>, progress: &dyn Progress) -> Result<bool, Error> {
        let known = known.and_then(|tag| tag.etag.as_deref());
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, header::HeaderValue::from_static("text/event-stream"));
        let response = self.get(path, headers).await?;
        if response.status() != StatusCode::OK {
            return Err(self.refuse(path, response.status()));
        }
        let (mut body, mut events) = (response.bytes_stream(), Events::default());
        loop {
            // A short wait, so that whoever stops this is heard.
            match timeout(ASK, body.next()).await {
                Err(_) if progress.is_cancelled() => return Ok(false),
                Err(_) => {}
                Ok(None) => return Ok(false),
                Ok(Some(Ok(piece))) if events.push(&piece, known) => return Ok(true),
                Ok(Some(Ok(_))) => {}
                Ok(Some(Err(error))) => return Err(self.failed("listen to", path, error)),
            }
        }
    }

    async fn read(&self, path: &str, limit: usize, known: Option<&Tag>, fresh: bool) -> Result<Read, Error> {
        let mut headers = identity(fresh);
        if let Some(etag) = known.and_then(|tag| tag.etag.as_deref()).and_then(|etag| etag.parse().ok()) {
            headers.insert(header::IF_NONE_MATCH, etag);
        }
        let response = self.get(path, headers).await?;
        let text = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_string());
        let date = text("date").and_then(|date| http_date(&date));
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_MODIFIED if known.is_some() => return Ok(Read::Unchanged),
            StatusCode::NOT_FOUND | StatusCode::GONE => return Ok(Read::Absent),
            status => return Err(self.refuse(path, status)),
        }
        let (etag, events) = (text("etag"), text("pulse-events"));
        let mut body = response.bytes_stream();
        let mut bytes = Vec::new();
        while let Some(piece) = self.next(path, &mut body).await? {
            bytes.extend_from_slice(&piece);
            // What is over the limit is refused by whoever asked, for it knows what it should have been.
            if bytes.len() > limit {
                break;
            }
        }
        let tag = etag.map(|etag| Tag { etag: Some(etag), version: None });
        Ok(Read::Found(Small { bytes, tag, date, events }))
    }

    async fn fetch(&self, wanted: Wanted<'_>, out: &mut File, progress: &dyn Progress) -> Result<(), Error> {
        let Wanted { path, from, bytes, fresh } = wanted;
        let mut headers = identity(fresh);
        if let Some(range) = Some(format!("bytes={from}-")).filter(|_| from > 0).and_then(|range| range.parse().ok()) {
            headers.insert(header::RANGE, range);
        }
        let response = self.get(path, headers).await?;
        let swapped = |why: String| Error::Swapped { place: self.place(path), why };
        let encoding = response.headers().get(header::CONTENT_ENCODING).and_then(|encoding| encoding.to_str().ok());
        if let Some(encoding) = encoding.filter(|encoding| *encoding != "identity") {
            return Err(swapped(format!("the server compresses it ({encoding}); it has to be served as it is")));
        }
        // A server without ranges sends the whole: its beginning is here already.
        let mut skip = match response.status() {
            StatusCode::OK => from,
            StatusCode::PARTIAL_CONTENT if begins_at(response.headers()) == Some(from) => 0,
            StatusCode::PARTIAL_CONTENT => {
                return Err(swapped("the server sent another range than was asked for".into()));
            }
            StatusCode::RANGE_NOT_SATISFIABLE => return Err(swapped("it is shorter than was announced".into())),
            status => return Err(self.refuse(path, status)),
        };
        let mut left = bytes - from;
        let mut body = response.bytes_stream();
        while let Some(piece) = self.next(path, &mut body).await? {
            if progress.is_cancelled() {
                return Err(Error::Interrupted);
            }
            let cut = skip.min(piece.len() as u64);
            skip -= cut;
            let piece = piece.slice(cut as usize..);
            if piece.len() as u64 > left {
                return Err(swapped("it is longer than was announced".into()));
            }
            out.write_all(&piece).map_err(Error::io("cannot write", Path::new(path)))?;
            left -= piece.len() as u64;
            progress.advance(piece.len() as u64);
        }
        Ok(())
    }
}

/// No server may compress what is compressed, and label the ranges of one by the other.
fn identity(fresh: bool) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT_ENCODING, header::HeaderValue::from_static("identity"));
    if fresh {
        headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-cache"));
        headers.insert(header::PRAGMA, header::HeaderValue::from_static("no-cache"));
    }
    headers
}

/// Where a partial answer begins.
fn begins_at(headers: &HeaderMap) -> Option<u64> {
    let range = headers.get(header::CONTENT_RANGE)?.to_str().ok()?;
    range.strip_prefix("bytes ")?.split('-').next()?.trim().parse().ok()
}

impl Place for Web {
    fn read_small(&self, path: &str, limit: usize, known: Option<&Tag>, fresh: bool) -> Result<Read, Error> {
        self.runtime.block_on(self.read(path, limit, known, fresh))
    }

    fn wait(&self, events: &str, known: Option<&Tag>, limit: Duration, progress: &dyn Progress) -> Result<bool, Error> {
        let listening = self.listen(events, known, progress);
        // The time is over: that is no failure.
        self.runtime.block_on(async { timeout(limit, listening).await.unwrap_or(Ok(false)) })
    }

    fn download(&self, wanted: Wanted<'_>, out: &mut File, progress: &dyn Progress) -> Result<(), Error> {
        self.runtime.block_on(self.fetch(wanted, out, progress))
    }

    fn put_head(&self, _: &[u8], _: Option<&Small>) -> Result<(), Error> {
        Err(read_only(&self.shown))
    }

    fn put_file(&self, _: &str, _: &Path, _: &dyn Progress) -> Result<(), Error> {
        Err(read_only(&self.shown))
    }

    fn size(&self, _: &str) -> Result<Option<u64>, Error> {
        Err(read_only(&self.shown))
    }

    fn list(&self, _: &str) -> Result<Vec<Listed>, Error> {
        Err(read_only(&self.shown))
    }

    fn delete(&self, _: &str) -> Result<(), Error> {
        Err(read_only(&self.shown))
    }

    fn abort_uploads(&self, _: bool) -> Result<Vec<Listed>, Error> {
        Err(read_only(&self.shown))
    }
}

fn read_only(shown: &str) -> Error {
    Error::Usage(format!(
        "{shown} can only be read over HTTP; publish to the folder or the bucket behind it (a path, s3://, gs://, az://)"
    ))
}
