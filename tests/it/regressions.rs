//! What fuzzing found, replayed. `tests/regressions/README.md` says how a file gets there.

use crate::support::cells::Pair;
use crate::support::inflate::Ruzstd;
use crate::support::paths::push_all;
use pulse_encoder::Zstd;
use pulse_format::apply::apply_segment;
use pulse_format::contextual::{ContextualChanges, ContextualDecoder};
use pulse_format::{Error, Header, Inflate, Limits, Profile, absolute};
use std::path::Path;

/// Takes `input` for a patch: pushes it, reads it, decodes each segment and applies it to cells of zeros. Only the lack of a panic
/// and of a hang counts, and that both zstd decoders lead to the same kind of error.
fn replay(input: &[u8]) -> Option<&'static str> {
    for size in [1, 100, usize::MAX] {
        // The error, if any, is the reader's own matter; chopped.rs holds it to be the same.
        let _ = push_all(input, || size, Zstd::default(), |_, _, _| Ok(()));
    }
    let [c, rust] = [read_whole(input, &Zstd::default()), read_whole(input, &Ruzstd)];
    assert_eq!(c.as_ref().err().map(Error::code), rust.as_ref().err().map(Error::code));
    c.err().map(|error| error.code())
}

fn read_whole(input: &[u8], codec: &impl Inflate) -> Result<(), Error> {
    let header = Header::read(input, codec, &Limits::default())?;
    let (mut decoder, mut changes) = (ContextualDecoder::default(), ContextualChanges::default());
    let mut first = Ok(());
    for (index, segment) in header.segments.iter().enumerate() {
        let range = segment.byte_range();
        let payload = input.get(range.start as usize..range.end as usize).unwrap_or_default();
        let width = header.tensors[segment.tensor].dtype.cell_bytes();
        // Hashes are not looked at here, so that fuzzed bytes reach the decoders.
        let decoded = match segment.profile {
            Profile::Unchanged => Ok(()),
            Profile::Contextual { .. } => decoder.decode(&header, index, payload, codec, &mut changes),
            Profile::Absolute | Profile::Relative => {
                absolute::decode(payload, segment.cells, segment.changes, width, codec).map(|_| ())
            }
        };
        let applied = apply_segment(&header, index, payload, &vec![0; segment.cells as usize * width], codec);
        first = first.and(decoded).and(applied.map(|_| ()));
    }
    first
}

#[test]
fn what_was_found_stays_fixed() {
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "md") {
            println!("{}", path.display());
            replay(&std::fs::read(&path).unwrap());
        }
    }
}

/// The replay itself reaches what it should.
#[test]
fn a_replay_reads_to_the_end() {
    let patch = Pair::mixed().encode(&Pair::mixed_options());
    assert_eq!(replay(&patch), Some("wrong_base"), "zeros are no base");
    assert_eq!(replay(&patch[..100]), Some("truncated"));
    assert_eq!(replay(&Pair::new([]).encode(&Pair::mixed_options())), None);
    assert_eq!(replay(b"no patch"), Some("damaged"));
}
