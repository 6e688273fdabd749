//! A served folder, and a client that says exactly what it wants.

use pulse_channel::store::{PublishOptions, Publisher, SecretKey};
use pulse_encoder::Silent;
use pulse_serve::{ServeOptions, run};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

pub(crate) struct Served {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    pub(crate) fn new() -> Self {
        Self::with(ServeOptions { poll: Duration::from_millis(10), ..ServeOptions::default() })
    }

    pub(crate) fn with(options: ServeOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let channel = folder.path().join("channel");
        std::fs::create_dir(&channel).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (send, receive) = std::sync::mpsc::channel();
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let ready = |address| send.send(address).unwrap();
            run("127.0.0.1:0", &channel, options, ready, || stopped.load(Ordering::Relaxed)).unwrap();
        });
        Self { folder, address: receive.recv().unwrap(), stop, thread: Some(thread) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("channel").join(name)
    }

    pub(crate) fn publish(&self, step: u64) {
        let options = PublishOptions { run: Some("r".into()), ..PublishOptions::new(self.folder.path().join("state")) };
        let publisher = Publisher::open(self.path("").to_str().unwrap(), key(), options).unwrap();
        let checkpoint = self.folder.path().join("checkpoint.safetensors");
        std::fs::write(&checkpoint, safetensors(step)).unwrap();
        let prepared = publisher.prepare(&checkpoint, step, &Silent).unwrap();
        publisher.commit(&prepared, &Silent).unwrap();
    }

    /// Publishes though somebody wrote over the head.
    pub(crate) fn publish_over(&self, step: u64) {
        std::fs::remove_dir_all(self.folder.path().join("state")).unwrap();
        std::fs::remove_file(self.path("head.json")).unwrap();
        self.publish(step);
    }

    /// The address of an object, and its bytes.
    pub(crate) fn object(&self) -> (String, Vec<u8>) {
        let file = std::fs::read_dir(self.path("objects")).unwrap().next().unwrap().unwrap();
        (format!("/objects/{}", file.file_name().to_str().unwrap()), std::fs::read(file.path()).unwrap())
    }

    pub(crate) fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.ask("GET", path, headers)
    }

    /// One request on a connection of its own.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{headers}\r\n").unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        Answer::read(&bytes)
    }

    /// Ends the server and waits until it has ended.
    pub(crate) fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.end();
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    fn read(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer with a head");
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<_> = lines
            .map(|line| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_string())).unwrap())
            .collect();
        let mut body = bytes[end + 4..].to_vec();
        if headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked") {
            body = unchunked(&body);
        }
        Self { status, headers, body }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let line = rest.iter().position(|byte| *byte == b'\n').unwrap();
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap().trim(), 16).unwrap();
        if length == 0 {
            return body;
        }
        body.extend(&rest[line + 1..line + 1 + length]);
        rest = &rest[line + 3 + length..];
    }
}

pub(crate) fn key() -> SecretKey {
    SecretKey::from_seed([3; 32])
}

/// BF16 weights of which each step changes some.
pub(crate) fn safetensors(step: u64) -> Vec<u8> {
    const CELLS: u64 = 40_000;
    let header = format!(r#"{{"w":{{"dtype":"BF16","shape":[{CELLS}],"data_offsets":[0,{}]}}}}"#, 2 * CELLS);
    let cell = |place: u64| (0x3c00 + place * 31 % 512 + u64::from(place % 97 < step)) as u16;
    let cells = (0..CELLS).flat_map(|place| cell(place).to_le_bytes());
    (header.len() as u64).to_le_bytes().into_iter().chain(header.into_bytes()).chain(cells).collect()
}

/// The weights of a file.
pub(crate) fn weights(path: &Path) -> Vec<u8> {
    let file = std::fs::read(path).unwrap();
    file[file.len() - 80_000..].to_vec()
}
