//! What untrusted bytes may cost.

use crate::Error;

/// The most that reading one patch may cost. Spent before anything is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Tensors that a patch may list.
    pub max_tensors: u64,
    /// Bytes that a reader may allocate for one patch, all allocations added up, but for copies of the caller's own
    /// tensors. A parsed JSON header counts as [`HEADER_COST`](Limits::HEADER_COST) times its length.
    pub max_bytes: u64,
}

impl Limits {
    /// Bytes charged for each byte of a JSON header: parsed, it takes more room than written. The worst are lists of
    /// one-digit numbers, of which two bytes become eight, in a vector that doubles as it grows.
    pub const HEADER_COST: u64 = 16;
}

impl Default for Limits {
    /// 65,536 tensors and 4 GiB: ample for a dense 70B model, whose largest tensor is about 2 GiB.
    fn default() -> Self {
        Self { max_tensors: 1 << 16, max_bytes: 4 << 30 }
    }
}

/// What is left of [`Limits`] while a patch is read.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    bytes_left: u64,
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { limits: *limits, bytes_left: limits.max_bytes }
    }

    /// Pays for an allocation of `bytes`, before it is made.
    pub(crate) fn spend(&mut self, bytes: u64) -> Result<(), Error> {
        match self.bytes_left.checked_sub(bytes) {
            Some(left) => {
                self.bytes_left = left;
                Ok(())
            }
            None => Err(Error::Limit { what: "bytes", needed: bytes, allowed: self.bytes_left }),
        }
    }

    /// Pays for `count` elements of type `T`.
    pub(crate) fn spend_elements<T>(&mut self, count: usize) -> Result<(), Error> {
        self.spend((count as u64).saturating_mul(size_of::<T>() as u64))
    }

    /// Pays for the parsed form of a JSON header of `len` bytes.
    pub(crate) fn spend_header(&mut self, len: usize) -> Result<(), Error> {
        self.spend((len as u64).saturating_mul(Limits::HEADER_COST))
    }

    pub(crate) fn check_tensors(&self, count: usize) -> Result<(), Error> {
        let (needed, allowed) = (count as u64, self.limits.max_tensors);
        if needed > allowed { Err(Error::Limit { what: "tensors", needed, allowed }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_once() {
        let mut budget = Budget::new(&Limits { max_tensors: 2, max_bytes: 10 });
        budget.spend_elements::<u16>(4).unwrap();
        assert_eq!(budget.spend(3), Err(Error::Limit { what: "bytes", needed: 3, allowed: 2 }));
        budget.spend(2).unwrap();
        assert!(budget.spend_elements::<u64>(usize::MAX).is_err());
        budget.check_tensors(2).unwrap();
        assert_eq!(budget.check_tensors(3), Err(Error::Limit { what: "tensors", needed: 3, allowed: 2 }));
    }
}
