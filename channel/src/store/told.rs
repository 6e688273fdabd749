//! A server's stream of events, as far as a follower needs it: is there another head?

/// The longest line that an event of ours has; longer ones are somebody else's.
const MAX_LINE: usize = 4096;

/// Reads a stream of events piece by piece.
#[derive(Debug, Default)]
pub(crate) struct Events {
    line: Vec<u8>,
    /// The rest of a line that is too long is passed over.
    skip: bool,
}

impl Events {
    /// Takes the next piece; whether it told of a head under another tag than `known`.
    pub(crate) fn push(&mut self, piece: &[u8], known: Option<&str>) -> bool {
        let mut told = false;
        for byte in piece {
            match byte {
                b'\n' | b'\r' => {
                    told |= !self.skip && is_other(&self.line, known);
                    self.skip = false;
                    self.line.clear();
                }
                _ if self.line.len() == MAX_LINE => self.skip = true,
                byte => self.line.push(*byte),
            }
        }
        told
    }
}

fn is_other(line: &[u8], known: Option<&str>) -> bool {
    let Some(data) = line.strip_prefix(b"data:") else { return false };
    let Ok(told) = serde_json::from_slice::<serde_json::Value>(data) else { return false };
    // Without a tag to compare, any head may be another.
    told.get("etag").and_then(|etag| etag.as_str()).is_some_and(|etag| known != Some(etag))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = concat!(
        ": alive\n\nevent: head\ndata: {\"etag\":\"\\\"a\\\"\",\"sequence\":3}\n\n",
        "data: torn\n\ndata: [1]\r\n\r\n",
    );

    #[test]
    fn a_head_is_told_however_the_stream_is_cut() {
        for size in 1..STREAM.len() {
            let tells = |known: Option<&str>| {
                let mut events = Events::default();
                STREAM.as_bytes().chunks(size).any(|piece| events.push(piece, known))
            };
            assert!(tells(None) && tells(Some("\"b\"")) && !tells(Some("\"a\"")), "{size}");
        }
    }

    #[test]
    fn a_line_without_end_takes_no_memory() {
        let mut events = Events::default();
        for _ in 0..100 {
            assert!(!events.push(&[b'x'; 1000], None));
        }
        assert!(events.line.capacity() <= 2 * MAX_LINE);
        assert!(!events.push(b"data: {\"etag\":\"x\"}\n", None), "it is the end of that line");
        assert!(events.push(b"data: {\"etag\":\"x\"}\n", None));
    }
}
