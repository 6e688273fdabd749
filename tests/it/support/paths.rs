//! Every way to apply a patch in memory.

use super::cells::Cells;
use pulse_format::apply::apply_segment;
use pulse_format::{Error, Event, Header, Inflate, Limits, Reader};

/// By byte ranges from a patch in memory, each segment by the reference.
pub(crate) fn apply_whole(patch: &[u8], base: &Cells, codec: &impl Inflate) -> Result<Cells, Error> {
    let header = Header::read(patch, codec, &Limits::default())?;
    check_tensors(&header, base)?;
    let mut cells = base.clone();
    for (index, segment) in header.segments.iter().enumerate() {
        let range = segment.byte_range();
        let start = patch.len().min(range.start as usize);
        let payload = &patch[start..patch.len().min(range.end as usize)];
        apply_one(&header, index, payload, &mut cells, codec)?;
    }
    Ok(cells)
}

/// From a stream that comes in pieces of the sizes that `next_size` gives, each segment by the reference.
pub(crate) fn apply_pushed<I: Inflate + Clone>(
    patch: &[u8],
    next_size: impl FnMut() -> usize,
    base: &Cells,
    codec: &I,
) -> Result<Cells, Error> {
    let mut cells = base.clone();
    let mut header = None;
    push_all(patch, next_size, codec.clone(), |reader_header, index, payload| {
        let header = header.get_or_insert_with(|| reader_header.clone());
        check_tensors(header, base)?;
        index.map_or(Ok(()), |index| apply_one(header, index, payload, &mut cells, codec))
    })?;
    let header: Header = header.unwrap_or_default();
    // No bytes, hence no event; but the base must be right there too.
    for (index, _) in header.segments.iter().enumerate().filter(|(_, segment)| segment.bytes == 0) {
        apply_one(&header, index, &[], &mut cells, codec)?;
    }
    Ok(cells)
}

/// Drives a [`Reader`] to the end; calls `visit` with the header alone, and then with each segment that has bytes.
pub(crate) fn push_all<I: Inflate>(
    patch: &[u8],
    mut next_size: impl FnMut() -> usize,
    codec: I,
    mut visit: impl FnMut(&Header, Option<usize>, &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut reader = Reader::new(codec, Limits::default());
    let mut header = Header::default();
    let mut rest = patch;
    let mut over = false;
    while !over {
        let (chunk, later) = rest.split_at(next_size().clamp(1, rest.len().max(1)).min(rest.len()));
        // The stream's end is one more push, of nothing: only then can the reader know that nothing follows.
        over = chunk.is_empty();
        rest = later;
        let mut used = 0;
        while over || used < chunk.len() {
            let mut unread = &chunk[used..];
            let is_header = match reader.push(&mut unread)? {
                None | Some(Event::End) => break,
                Some(Event::Segment { index, payload }) => {
                    visit(&header, Some(index), payload)?;
                    false
                }
                Some(_) => true,
            };
            used = chunk.len() - unread.len();
            if is_header {
                header = reader.header().cloned().unwrap_or_default();
                visit(&header, None, &[])?;
            }
        }
    }
    reader.finish()
}

fn apply_one(
    header: &Header,
    index: usize,
    payload: &[u8],
    cells: &mut Cells,
    codec: &impl Inflate,
) -> Result<(), Error> {
    let mut base = Vec::new();
    for (name, range) in ranges(header, index) {
        base.extend_from_slice(&cells[&name][range]);
    }
    let target = apply_segment(header, index, payload, &base, codec)?;
    let mut rest = target.as_slice();
    for (name, range) in ranges(header, index) {
        let (piece, later) = rest.split_at(range.len());
        cells.get_mut(&name).unwrap()[range].copy_from_slice(piece);
        rest = later;
    }
    Ok(())
}

/// The bytes of each piece of a segment.
pub(crate) fn ranges(header: &Header, index: usize) -> Vec<(String, std::ops::Range<usize>)> {
    let pieces = header.pieces(index).into_iter().map(|piece| {
        let tensor = &header.tensors[piece.tensor];
        let width = tensor.dtype.cell_bytes();
        let start = piece.first_cell.get() as usize * width;
        (tensor.name.clone(), start..start + piece.cells as usize * width)
    });
    pieces.collect()
}

/// What the encoder's own apply answers with its error `Tensors`.
fn check_tensors(header: &Header, base: &Cells) -> Result<(), Error> {
    let fits = |tensor: &pulse_format::Tensor| {
        let bytes = tensor.cells().map(|cells| cells.get() * tensor.dtype.cell_bytes() as u64);
        base.get(&tensor.name).map(|cells| cells.len() as u64) == bytes
    };
    if header.tensors.len() == base.len() && header.tensors.iter().all(fits) {
        Ok(())
    } else {
        Err(Error::Misuse { what: "the base has other tensors" })
    }
}
