//! One round trip by every path there is.

use super::cells::{Cells, Pair};
use super::contents;
use super::inflate::Ruzstd;
use super::paths::{apply_pushed, apply_whole};
use pulse_encoder::{Checkpoint, EncodeOptions, Silent, Zstd, apply_file, encode, encode_file, verify_file};
use pulse_format::{Fingerprint, Header, Limits, fingerprint};
use std::path::Path;

/// Encodes `pair`, applies the patch by every path, holds each result to the target's bytes; returns the patch.
pub(crate) fn round_trip(pair: &Pair, options: &EncodeOptions) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let (base, target) = pair.write(folder.path());
    let (patch, rebuilt) = (folder.path().join("patch.pulse"), folder.path().join("rebuilt.safetensors"));
    let written = encode_file(&base, &target, &patch, options, &Silent).unwrap();
    let bytes = std::fs::read(&patch).unwrap();
    let checkpoints = (Checkpoint::open(&base).unwrap(), Checkpoint::open(&target).unwrap());
    let in_memory = encode(&checkpoints.0, &checkpoints.1, options, &Silent).unwrap();
    assert!(in_memory.into_bytes().unwrap() == bytes, "the same input gives the same patch, in memory and by file");

    let header = Header::read(&bytes, &Zstd::default(), &Limits::default()).unwrap();
    assert_eq!(header, written);
    check_header(&header, pair, options, bytes.len() as u64);

    in_memory_paths(&bytes, &pair.base_cells(), &pair.target_cells());
    apply_file(&patch, &base, &rebuilt, &Silent).unwrap();
    assert!(std::fs::read(&rebuilt).unwrap() == pair.target_file(), "apply_file gives the target's file");
    verify_file(&patch, &base, Some(&target), &Silent).unwrap();
    verify_file(&patch, &base, None, &Silent).unwrap();
    bytes
}

/// The reference over a patch in memory and over a stream, with either zstd.
pub(crate) fn in_memory_paths(patch: &[u8], base: &Cells, target: &Cells) {
    let check = |path: &str, result: Result<Cells, pulse_format::Error>| match result {
        Ok(cells) => assert!(cells == *target, "{path} gives the target's cells"),
        Err(error) => panic!("{path}: {error}"),
    };
    check("the reference with zstd", apply_whole(patch, base, &Zstd::default()));
    check("the reference with ruzstd", apply_whole(patch, base, &Ruzstd));
    check("a stream of 777 bytes a time", apply_pushed(patch, || 777, base, &Ruzstd));
    check("a stream in one", apply_pushed(patch, || usize::MAX, base, &Zstd::default()));
}

/// What the header says about the pair, worked out again.
fn check_header(header: &Header, pair: &Pair, options: &EncodeOptions, patch_bytes: u64) {
    assert_eq!((header.base_step, header.target_step), (Some(options.base_step), options.target_step));
    assert_eq!((header.seed, &header.run_id), (options.seed, &options.run_id));
    assert_eq!(header.changes().get(), pair.changes());
    assert_eq!(header.patch_bytes().get(), patch_bytes);
    let mut sorted: Vec<_> = pair.tensors.iter().collect();
    sorted.sort_by_key(|tensor| (tensor.dtype as u8, tensor.name.as_bytes()));
    let (mut base, mut target) = (Fingerprint::ZERO, Fingerprint::ZERO);
    assert_eq!(header.tensors.len(), sorted.len());
    for (index, (entry, tensor)) in header.tensors.iter().zip(sorted).enumerate() {
        assert_eq!((&entry.name, entry.dtype, &entry.shape), (&tensor.name, tensor.dtype, &tensor.shape));
        base += fingerprint(&tensor.base, options.seed, index as u32, 0);
        target += fingerprint(&tensor.target, options.seed, index as u32, 0);
    }
    assert_eq!((header.base_fingerprint(), header.target_fingerprint()), (base, target));
    let largest = options.segment_cells.max(1024);
    assert!(header.segments.iter().all(|segment| segment.cells <= largest && segment.cells > 0));
}

/// Two folders hold the same files with the same bytes.
pub(crate) fn same_folders(a: &Path, b: &Path) {
    let (a, b) = (contents(a), contents(b));
    let names = |files: &[(String, Vec<u8>)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&a), names(&b));
    for ((name, a), (_, b)) in a.iter().zip(&b) {
        assert!(a == b, "{name} differs");
    }
}
