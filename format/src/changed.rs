//! What differs in a few blocks, in arrays side by side, so that it is worked out many at a time.

use crate::cell::FloatCell;
use crate::fingerprint::{Fingerprint, Keys};
use crate::masks::Aligned;

/// Numbers that are worked out at once. The arrays are whole multiples of it; what lies past the end is worked out too and not used.
const LANES: usize = 32;

/// Words that differ, or each step of a word that changes more than once. Once full, they must be taken.
pub(crate) struct ChangedWords<const N: usize> {
    keys_a: Aligned<[u32; N]>,
    keys_b: Aligned<[u32; N]>,
    before: Aligned<[u32; N]>,
    after: Aligned<[u32; N]>,
    count: usize,
}

impl<const N: usize> ChangedWords<N> {
    pub(crate) fn new() -> Self {
        const { assert!(N.is_multiple_of(LANES)) };
        let zeros = || Aligned([0; N]);
        Self { keys_a: zeros(), keys_b: zeros(), before: zeros(), after: zeros(), count: 0 }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, keys: Keys, before: u32, after: u32) {
        let at = self.count.min(N - 1);
        #[expect(clippy::indexing_slicing, reason = "held below the length")]
        {
            self.keys_a.0[at] = keys.a;
            self.keys_b.0[at] = keys.b;
            self.before.0[at] = before;
            self.after.0[at] = after;
        }
        self.count = at + 1;
    }

    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.count == N
    }

    /// What the words add to the fingerprint by having changed; forgets them.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Fingerprint {
        let padded = self.count.next_multiple_of(LANES);
        self.after.0.get_mut(self.count..padded).into_iter().for_each(|rest| rest.fill(0));
        self.before.0.get_mut(self.count..padded).into_iter().for_each(|rest| rest.fill(0));
        let keys = self.keys_a.0.as_chunks::<LANES>().0.iter().zip(self.keys_b.0.as_chunks::<LANES>().0);
        let words = self.before.0.as_chunks::<LANES>().0.iter().zip(self.after.0.as_chunks::<LANES>().0);
        let mut sums = [Fingerprint::ZERO; LANES];
        for ((a, b), (before, after)) in keys.zip(words).take(padded / LANES) {
            #[expect(clippy::indexing_slicing, reason = "all arrays have this length")]
            for i in 0..LANES {
                let keys = Keys { a: a[i], b: b[i] };
                sums[i] += keys.mix(after[i]) - keys.mix(before[i]);
            }
        }
        self.count = 0;
        sums.into_iter().sum()
    }
}

/// Cells that differ, in order. `N` is at most 2^16.
pub(crate) struct ChangedCells<const N: usize> {
    places: [u16; N],
    /// The cell before in the lower half, after in the upper.
    cells: [u32; N],
    count: usize,
    classes: [u8; N],
    steps: [i16; N],
}

impl<const N: usize> ChangedCells<N> {
    pub(crate) fn new() -> Self {
        const { assert!(N.is_multiple_of(LANES) && N < 1 << 16) };
        Self { places: [0; N], cells: [0; N], count: 0, classes: [0; N], steps: [0; N] }
    }

    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Adds the cell if it differs: without a branch, it is written and then kept or not.
    #[inline(always)]
    pub(crate) fn push(&mut self, place: usize, before: u16, after: u16) {
        let at = self.count.min(N - 1);
        #[expect(clippy::indexing_slicing, reason = "held below the length")]
        {
            self.places[at] = place as u16;
            self.cells[at] = u32::from(after) << 16 | u32::from(before);
        }
        self.count = at + usize::from(before != after);
    }

    /// Part, class and ULP step of each.
    #[inline(always)]
    pub(crate) fn steps<C: FloatCell>(&mut self) -> impl Iterator<Item = (usize, u8, i16)> {
        let out = self.classes.as_chunks_mut::<LANES>().0.iter_mut().zip(self.steps.as_chunks_mut::<LANES>().0);
        let cells = self.cells.as_chunks::<LANES>().0.iter().zip(out);
        for (cells, (classes, steps)) in cells.take(self.count.div_ceil(LANES)) {
            #[expect(clippy::indexing_slicing, reason = "all arrays have this length")]
            for i in 0..LANES {
                let (before, after) = (cells[i] as u16, (cells[i] >> 16) as u16);
                classes[i] = C::class(before);
                steps[i] = C::ulp_step(before, after);
            }
        }
        let all = self.places.iter().zip(&self.classes).zip(&self.steps).take(self.count);
        all.map(|((place, class), step)| (usize::from(*place), *class, *step))
    }
}
