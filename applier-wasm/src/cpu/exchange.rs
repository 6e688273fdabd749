//! What a patch overwrote: words that are exchanged with those in memory, once to take the patch back, twice to take that back.

use super::memory::{Memory, Spans};
use crate::receiver::Failure;

/// Bytes that an exchange keeps for each word.
pub(super) const BYTES_PER_WORD: u64 = 8;

/// Words by their index within some run, and their content; the last word of a run may have fewer than 4 bytes.
pub(super) type Words = Vec<(u32, u32)>;

/// What differs from memory in one run of cells.
#[derive(Debug)]
struct Run {
    span: usize,
    /// Where the run begins in its span, and how long it is, in bytes.
    start: usize,
    length: usize,
    words: Words,
}

/// What differs from memory in all runs that were written.
#[derive(Debug, Default)]
pub(super) struct Exchange(Vec<Run>);

impl Exchange {
    /// Notes words of a run of so many bytes that were overwritten.
    pub(super) fn note(&mut self, span: usize, start: usize, length: usize, words: Words) {
        self.0.push(Run { span, start, length, words });
    }

    /// Exchanges all words with those in memory.
    ///
    /// # Errors
    /// Those of the memory; with [`Failure::Old`] it is what it was before the call.
    pub(super) fn swap<M: Memory>(&mut self, spans: &mut Spans<M>) -> Result<(), Failure> {
        let mut done = 0;
        let swapped = self.0.iter_mut().try_for_each(|run| run.swap(spans).inspect(|()| done += 1));
        match swapped {
            Err(Failure::Old(error)) => match self.0.iter_mut().take(done).try_for_each(|run| run.swap(spans)) {
                Ok(()) => Err(Failure::Old(error)),
                Err(_) => Err(Failure::Mixed(error)),
            },
            other => other,
        }
    }
}

impl Run {
    fn swap<M: Memory>(&mut self, spans: &mut Spans<M>) -> Result<(), Failure> {
        let mut before = vec![0; self.length];
        spans.read(self.span, self.start, &mut before).map_err(Failure::Old)?;
        let mut after = before.clone();
        for (index, content) in &self.words {
            let word = after.chunks_mut(4).nth(*index as usize).into_iter().flatten();
            word.zip(content.to_le_bytes()).for_each(|(to, from)| *to = from);
        }
        spans.write(self.span, self.start, &before, &after)?;
        for (index, content) in &mut self.words {
            *content = before.chunks(4).nth(*index as usize).map_or(0, word);
        }
        Ok(())
    }
}

/// The words of `before` that are others in `after`; both are as long.
pub(super) fn differing(before: &[u8], after: &[u8]) -> Words {
    let mut words = Words::new();
    // Few words change: whole stretches are compared at once, and by vectors, which comparing slices is not in wasm.
    let stretches = before.chunks(STRETCH).zip(after.chunks(STRETCH)).zip((0u32..).step_by(STRETCH / 4));
    for ((before, after), first) in stretches {
        if !is_same(before, after) {
            let ((before, before_rest), (after, after_rest)) = (before.as_chunks::<4>(), after.as_chunks::<4>());
            let pairs = before
                .iter()
                .zip(after)
                .map(|(before, after)| (u32::from_le_bytes(*before), u32::from_le_bytes(*after)));
            let rest = (first + before.len() as u32, word(before_rest), word(after_rest));
            let all = (first..).zip(pairs).map(|(index, (before, after))| (index, before, after)).chain([rest]);
            words.extend(all.filter(|(_, before, after)| before != after).map(|(index, before, _)| (index, before)));
        }
    }
    words
}

/// Bytes that are compared at once.
const STRETCH: usize = 128;

fn is_same(one: &[u8], two: &[u8]) -> bool {
    match (one.as_array::<STRETCH>(), two.as_array::<STRETCH>()) {
        (Some(one), Some(two)) => {
            let (one, two) = (one.as_chunks::<16>().0, two.as_chunks::<16>().0);
            let pairs = one.iter().zip(two);
            pairs.fold(0, |all, (one, two)| all | (u128::from_le_bytes(*one) ^ u128::from_le_bytes(*two))) == 0
        }
        _ => one == two,
    }
}

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swapped_once_it_is_the_old_content_and_twice_the_new() {
        let old: Vec<u8> = (0..1001).map(|byte| byte as u8).collect();
        let mut new = old.clone();
        for place in [0, 255, 256, 999, 1000] {
            new[place] ^= 0x55;
        }
        let mut exchange = Exchange::default();
        let words = differing(&old, &new);
        assert_eq!(words.len(), 5);
        exchange.note(0, 0, old.len(), words);
        let mut spans = Spans::default();
        spans.add(new.clone(), 0..1001);
        exchange.swap(&mut spans).unwrap();
        assert_eq!(spans.memory(0), Some(&old));
        exchange.swap(&mut spans).unwrap();
        assert_eq!(spans.memory(0), Some(&new));
    }
}
