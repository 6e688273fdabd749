//! What differs in a few blocks, in arrays side by side, so that it is worked out many at a time.

use crate::cell::FloatCell;
use crate::fingerprint::{Fingerprint, Keys};
use crate::layout::CLASSES;
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

/// Cells that differ, in order, then by exponent class. `N` is at most 2^16.
pub(crate) struct ChangedCells<const N: usize> {
    places: [u16; N],
    before: [u16; N],
    after: [u16; N],
    count: usize,
    classes: [u8; N],
    steps: [i16; N],
    sorted_places: [u16; N],
    sorted_steps: [i16; N],
    /// Where each class begins in the sorted arrays, and the last ends.
    starts: [u16; CLASSES + 1],
}

/// The changed cells of one class: places in order, and ULP steps.
pub(crate) type OfClass<'a> = (&'a [u16], &'a [i16]);

impl<const N: usize> ChangedCells<N> {
    pub(crate) fn new() -> Self {
        const { assert!(N.is_multiple_of(LANES) && N < 1 << 16) };
        Self {
            places: [0; N],
            before: [0; N],
            after: [0; N],
            count: 0,
            classes: [0; N],
            steps: [0; N],
            sorted_places: [0; N],
            sorted_steps: [0; N],
            starts: [0; CLASSES + 1],
        }
    }

    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    /// Adds the cell if it differs: without a branch, it is written and then kept or not.
    #[inline(always)]
    pub(crate) fn push(&mut self, place: usize, before: u16, after: u16) {
        let at = self.count.min(N - 1);
        #[expect(clippy::indexing_slicing, reason = "held below the length")]
        {
            self.places[at] = place as u16;
            self.before[at] = before;
            self.after[at] = after;
        }
        self.count = at + usize::from(before != after);
    }

    /// Sorts them by class, and returns which classes there are, as a bit set.
    #[inline(always)]
    pub(crate) fn sort<C: FloatCell>(&mut self) -> u32 {
        let cells = self.before.as_chunks::<LANES>().0.iter().zip(self.after.as_chunks::<LANES>().0);
        let out = self.classes.as_chunks_mut::<LANES>().0.iter_mut().zip(self.steps.as_chunks_mut::<LANES>().0);
        for ((before, after), (classes, steps)) in cells.zip(out).take(self.count.div_ceil(LANES)) {
            #[expect(clippy::indexing_slicing, reason = "all arrays have this length")]
            for i in 0..LANES {
                classes[i] = C::class(before[i]);
                steps[i] = C::ulp_step(before[i], after[i]);
            }
        }
        let classes = self.classes.get(..self.count).unwrap_or_default();
        let mut next = [0u16; CLASSES];
        for class in classes {
            next.get_mut(usize::from(*class)).into_iter().for_each(|count| *count += 1);
        }
        let (mut start, mut present) = (0, 0);
        for ((next, to), class) in next.iter_mut().zip(&mut self.starts).zip(0..) {
            present |= u32::from(*next > 0) << class;
            *to = start;
            start += core::mem::replace(next, start);
        }
        self.starts[CLASSES] = start;
        for ((class, place), step) in classes.iter().zip(&self.places).zip(&self.steps) {
            if let Some(next) = next.get_mut(usize::from(*class)) {
                let at = usize::from(*next);
                self.sorted_places.get_mut(at).into_iter().for_each(|to| *to = *place);
                self.sorted_steps.get_mut(at).into_iter().for_each(|to| *to = *step);
                *next += 1;
            }
        }
        present
    }

    /// Those of `class`, once sorted.
    #[inline(always)]
    pub(crate) fn of_class(&self, class: u8) -> OfClass<'_> {
        let bound = |class: usize| self.starts.get(class).map_or(0, |start| usize::from(*start));
        let range = bound(usize::from(class))..bound(usize::from(class) + 1);
        (self.sorted_places.get(range.clone()).unwrap_or_default(), self.sorted_steps.get(range).unwrap_or_default())
    }

    /// Where each class begins, for [`ChangedCells::sorted`].
    pub(crate) fn starts(&self) -> [u16; CLASSES + 1] {
        self.starts
    }

    /// Place and step of the change at a place of the sorted arrays; past the last, what no cell has.
    #[inline(always)]
    pub(crate) fn sorted(&self, at: u16) -> (usize, i16) {
        let at = usize::from(at);
        let place =
            self.sorted_places.get(at).filter(|_| at < self.count).map_or(usize::MAX, |place| usize::from(*place));
        (place, self.sorted_steps.get(at).copied().unwrap_or_default())
    }
}
