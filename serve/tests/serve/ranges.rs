//! Ranges: exact bytes, as they are, whatever a client would have them compressed to.

use crate::support::Served;

#[test]
fn every_range_of_every_client() {
    let served = Served::new();
    served.publish(0);
    let (path, bytes) = served.object();
    let length = bytes.len();
    let (middle, last) = (length / 2, length - 1);
    let whole = (200, None, 0..length);
    let part =
        |range: std::ops::Range<usize>| (206, Some(format!("bytes {}-{}/{length}", range.start, range.end - 1)), range);
    let none = (416, Some(format!("bytes */{length}")), 0..0);
    let cases = [
        (None, whole.clone()),
        (Some("bytes=0-0".to_string()), part(0..1)),
        (Some(format!("bytes={middle}-{}", middle + 99)), part(middle..middle + 100)),
        (Some(format!("bytes={last}-{last}")), part(last..length)),
        (Some(format!("bytes={middle}-")), part(middle..length)),
        (Some("bytes=-7".to_string()), part(length - 7..length)),
        (Some(format!("bytes={middle}-{}", length + 1000)), part(middle..length)),
        (Some(format!("bytes={length}-")), none.clone()),
        (Some(format!("bytes={}-{}", length + 5, length + 9)), none),
        (Some("bytes=0-1,5-6".to_string()), whole.clone()),
        (Some("cells=0-1".to_string()), whole.clone()),
        (Some("bytes=9-3".to_string()), whole.clone()),
        (Some("bytes".to_string()), whole),
    ];
    for (range, (status, content_range, expected)) in &cases {
        for encoding in [None, Some("gzip"), Some("br, zstd"), Some("gzip;q=1, identity;q=0")] {
            for method in ["GET", "HEAD"] {
                let mut headers = Vec::new();
                headers.extend(range.as_deref().map(|range| ("Range", range)));
                headers.extend(encoding.map(|encoding| ("Accept-Encoding", encoding)));
                let answer = served.ask(method, &path, &headers);
                let what = format!("{method} {range:?} {encoding:?}");
                // What is no range at all may be refused or passed over.
                let passed_over = *status == 200 && answer.status == 416 && range.as_deref() == Some("bytes=9-3");
                if passed_over {
                    continue;
                }
                assert_eq!(
                    (answer.status, answer.header("content-range")),
                    (*status, content_range.as_deref()),
                    "{what}"
                );
                assert_eq!(answer.header("content-encoding"), None, "{what}");
                assert_eq!(answer.header("accept-ranges"), Some("bytes"), "{what}");
                let expected = &bytes[expected.clone()];
                assert_eq!(answer.header("content-length"), Some(expected.len().to_string().as_str()), "{what}");
                assert_eq!(answer.body, if method == "GET" { expected } else { &[] }, "{what}");
            }
        }
    }
}

#[test]
fn a_range_of_another_version_is_the_whole() {
    let served = Served::new();
    served.publish(0);
    let (path, bytes) = served.object();
    let tag = served.get(&path, &[]).header("etag").unwrap().to_string();
    for (known, status, length) in [(tag.as_str(), 206, 5), ("\"another\"", 200, bytes.len())] {
        let answer = served.get(&path, &[("Range", "bytes=10-14"), ("If-Range", known)]);
        assert_eq!((answer.status, answer.body.len()), (status, length), "{known}");
    }
}
