//! The stream of head changes.

use crate::support::Served;
use pulse_serve::ServeOptions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

fn open(served: &Served) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(served.address).unwrap();
    write!(stream, "GET /events HTTP/1.1\r\nHost: h\r\nAccept: text/event-stream\r\n\r\n").unwrap();
    BufReader::new(stream)
}

/// The next event's step; `None` at the end.
fn next(stream: &mut BufReader<TcpStream>) -> Option<u64> {
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).unwrap() == 0 {
            return None;
        }
        if let Some(data) = line.strip_prefix("data: ") {
            let number = data.split("\"step\":").nth(1).unwrap();
            assert!(data.contains("\"etag\":\"\\\"") && data.contains("\"sequence\":"), "{data}");
            return number.trim_end().trim_end_matches('}').parse().ok();
        }
    }
}

#[test]
fn every_reader_is_told_of_the_newest_head() {
    let mut served = Served::new();
    served.publish(3);
    let mut early = open(&served);
    assert_eq!(next(&mut early), Some(3));
    for step in [4, 5] {
        served.publish(step);
        assert_eq!(next(&mut early), Some(step));
    }
    let mut late = open(&served);
    assert_eq!(next(&mut late), Some(5));
    // A head that is none is not told of, and ends nothing.
    std::fs::write(served.path("head.json"), "torn").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    served.publish_over(6);
    assert_eq!(next(&mut late), Some(6));
    served.end();
    assert_eq!(next(&mut early), Some(6));
    assert_eq!((next(&mut early), next(&mut late)), (None, None));
}

#[test]
fn streams_are_limited_and_give_their_place_back() {
    let options = ServeOptions { streams: 2, poll: Duration::from_millis(10), ..ServeOptions::default() };
    let served = Served::with(options);
    served.publish(0);
    let mut streams = [open(&served), open(&served)];
    assert!(streams.iter_mut().all(|stream| next(stream) == Some(0)));
    let refused = served.get("/events", &[]);
    assert_eq!(refused.status, 503);
    assert!(refused.header("retry-after").is_some());
    drop(streams);
    // A place is free once the server has noticed: with the next event, or at once.
    for step in 1.. {
        served.publish(step);
        let mut stream = open(&served);
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        if line.contains("200") {
            return;
        }
        assert!(step < 50, "no place was given back");
    }
}
