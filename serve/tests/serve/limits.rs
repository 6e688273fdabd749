//! Clients that ask too much, or too slowly.

use crate::support::Served;
use pulse_serve::ServeOptions;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

fn impatient() -> ServeOptions {
    ServeOptions { connections: 4, idle: Duration::from_millis(300), ..ServeOptions::default() }
}

#[test]
fn clients_that_never_ask_make_place_for_others() {
    let served = Served::with(impatient());
    served.publish(0);
    let mut slow: Vec<_> = (0..4).map(|_| TcpStream::connect(served.address).unwrap()).collect();
    for stream in &mut slow {
        stream.write_all(b"GET /head.json HTTP/1.1\r\nX-Slow: ").unwrap();
    }
    // All four places are taken, until their time is over.
    assert_eq!(served.get("/head.json", &[]).status, 200);
    for mut stream in slow {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(!rest.starts_with(b"HTTP/1.1 200"), "they were ended");
    }
}

#[test]
fn a_client_that_stops_reading_is_ended() {
    let served = Served::with(impatient());
    served.publish(0);
    // More than the system keeps for a connection.
    let path = format!("objects/1.other.{}", "a".repeat(64));
    std::fs::write(served.path(&path), vec![7; 64 << 20]).unwrap();
    let mut stalled: Vec<_> = (0..4).map(|_| TcpStream::connect(served.address).unwrap()).collect();
    for stream in &mut stalled {
        write!(stream, "GET /{path} HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let mut first = [0; 15];
        stream.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"HTTP/1.1 200 OK");
    }
    assert_eq!(served.get("/head.json", &[]).status, 200);
    // Whichever made place for it was cut; the others may go on now.
    let cut = |stream: &mut TcpStream| {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).is_err() || rest.len() < 64 << 20
    };
    assert!(stalled.iter_mut().filter_map(|stream| cut(stream).then_some(())).count() > 0);
}

#[test]
fn headers_without_end_are_refused() {
    let served = Served::new();
    served.publish(0);
    let long = "x".repeat(100_000);
    let mut stream = TcpStream::connect(served.address).unwrap();
    let _ = write!(stream, "GET /head.json HTTP/1.1\r\nHost: h\r\nX: {long}\r\n\r\n");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
    assert_eq!(served.get("/head.json", &[]).status, 200);
}

#[test]
fn operators_see_what_happens() {
    let served = Served::new();
    served.publish(7);
    let (path, bytes) = served.object();
    served.get(&path, &[]);
    served.get("/nothing", &[]);
    assert_eq!(served.get("/healthz", &[]).body, b"ok\n");
    let wanted = [
        "pulse_serve_step 7",
        "pulse_serve_head_sequence 0",
        "pulse_serve_requests_total{kind=\"object\",status=\"200\"} 1",
        "pulse_serve_requests_total{kind=\"other\",status=\"404\"} 1",
        "pulse_serve_connections 1",
    ];
    // The stream of events is told of a head within a poll.
    for _ in 0..200 {
        let text = String::from_utf8(served.get("/metrics", &[]).body).unwrap();
        let sent = text.lines().find_map(|line| line.strip_prefix("pulse_serve_sent_bytes_total ")).unwrap();
        if sent.parse::<usize>().unwrap() >= bytes.len() && wanted.iter().all(|wanted| text.contains(wanted)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{}", String::from_utf8(served.get("/metrics", &[]).body).unwrap());
}
