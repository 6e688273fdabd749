//! Connections: how many, how slow, and how they end.

use crate::error::Error;
use crate::files::Folder;
use crate::options::ServeOptions;
use crate::routes::{Shared, router};
use crate::watched;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;

/// How long answers that are under way may take once the server is to end.
const FAREWELL: Duration = Duration::from_secs(5);
/// A header of a request beyond this is refused.
const MAX_HEADER_BYTES: usize = 16 << 10;

/// Serves the channel in `folder` on `listener` until `stop` is done; answers under way are then given a moment.
///
/// # Errors
/// [`Error::Folder`] if it is not a folder that can be read.
pub async fn serve(
    listener: TcpListener,
    folder: PathBuf,
    options: ServeOptions,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), Error> {
    let opened = Folder::open(&folder).map_err(|source| Error::Folder { path: folder.clone(), source })?;
    let (tell, head) = watch::channel(None);
    let ended = CancellationToken::new();
    let shared = Arc::new(Shared {
        folder: opened.clone(),
        head,
        requests: Semaphore::new(options.requests),
        streams: Arc::new(Semaphore::new(options.streams)),
        metrics: crate::metrics::Metrics::default(),
        stop: ended.clone(),
    });
    let looking = tokio::spawn(watched::look(opened, options.poll, tell));
    accept(listener, &shared, &options, stop).await;
    ended.cancel();
    looking.abort();
    Ok(())
}

async fn accept(
    listener: TcpListener,
    shared: &Arc<Shared>,
    options: &ServeOptions,
    stop: impl Future<Output = ()> + Send,
) {
    let service = router(shared.clone());
    let places = Arc::new(Semaphore::new(options.connections));
    let graceful = GracefulShutdown::new();
    let mut http = Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(options.idle).max_buf_size(MAX_HEADER_BYTES);
    http.http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(options.idle)
        .keep_alive_timeout(options.idle)
        .max_header_list_size(MAX_HEADER_BYTES as u32)
        .max_concurrent_streams(64);
    tokio::pin!(stop);
    loop {
        // A connection beyond the limit waits in the system's queue.
        let next = async {
            let place = places.clone().acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            () = &mut stop => break,
            next = next => next,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, most likely: others will end.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let stream = patient(stream, options.idle);
        let connection =
            http.serve_connection(TokioIo::new(Box::pin(stream)), TowerToHyperService::new(service.clone()));
        let connection = graceful.watch(connection.into_owned());
        let shared = shared.clone();
        shared.metrics.connections.inc();
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error, "a connection ended");
            }
            shared.metrics.connections.dec();
            drop(place);
        });
    }
    shared.stop.cancel();
    let _ = tokio::time::timeout(FAREWELL, graceful.shutdown()).await;
}

/// A client that reads nothing for so long is gone. One that has nothing to ask may wait: the limits of HTTP are for it.
fn patient(stream: TcpStream, idle: Duration) -> TimeoutStream<TcpStream> {
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(idle));
    stream
}

/// [`serve`] on threads of its own. `ready` is told the address; `stopped` is asked several times a second.
///
/// # Errors
/// As there, and [`Error::Listen`].
pub fn run(
    address: &str,
    folder: &Path,
    options: ServeOptions,
    ready: impl FnOnce(SocketAddr),
    stopped: impl Fn() -> bool + Send + Sync,
) -> Result<(), Error> {
    let listen = |source| Error::Listen { address: address.to_string(), source };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(listen)?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        ready(listener.local_addr().map_err(listen)?);
        let stop = async {
            while !stopped() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        serve(listener, folder.to_path_buf(), options, stop).await
    })
}
