//! What a patch overwrote: words that are exchanged with those in memory, once to take the patch back, twice to take that back.

use super::memory::{Memory, Spans};
use crate::receiver::Failure;
use pulse_format::Overwritten;

/// Bytes that an exchange keeps for each word.
pub(super) const BYTES_PER_WORD: u64 = 8;

/// What differs from memory in one run of cells.
#[derive(Debug)]
struct Run {
    span: usize,
    /// Where the run begins in its span, and how long it is, in bytes.
    start: usize,
    length: usize,
    words: Vec<Overwritten>,
}

/// What differs from memory in all runs that were written.
#[derive(Debug, Default)]
pub(super) struct Exchange(Vec<Run>);

impl Exchange {
    /// Notes words of a run of so many bytes that were overwritten.
    pub(super) fn note(&mut self, span: usize, start: usize, length: usize, words: Vec<Overwritten>) {
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
        put(&self.words, &mut after);
        spans.write(self.span, self.start, &after, || before.clone())?;
        // A word that is there more than once holds the same in all of them from now on.
        self.words.iter_mut().for_each(|word| word.before = word_at(&before, word.place));
        Ok(())
    }
}

/// Puts words back into the bytes of their run. From the last to the first: what a word held first comes last.
pub(super) fn put(words: &[Overwritten], run: &mut [u8]) {
    for Overwritten { place, before } in words.iter().rev() {
        let start = *place as usize * 4;
        let word = run.get_mut(start..).into_iter().flatten();
        word.zip(before.to_le_bytes()).for_each(|(to, from)| *to = from);
    }
}

fn word_at(run: &[u8], place: u32) -> u32 {
    let bytes = run.chunks(4).nth(place as usize).unwrap_or_default();
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
        let overwritten = |place: usize| Overwritten { place: place as u32, before: word_at(&old, place as u32) };
        // The second word changed twice: what it held in between does not count.
        let mut words = [0, 63, 64, 249, 250].map(overwritten).to_vec();
        words.push(Overwritten { before: 7, ..overwritten(63) });
        let mut exchange = Exchange::default();
        exchange.note(0, 0, old.len(), words);
        let mut spans = Spans::default();
        spans.add(new.clone(), 0..1001);
        exchange.swap(&mut spans).unwrap();
        assert_eq!(spans.memory(0), Some(&old));
        exchange.swap(&mut spans).unwrap();
        assert_eq!(spans.memory(0), Some(&new));
    }
}
