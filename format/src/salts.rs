//! The salts of words that come one after the other.

use crate::fingerprint::{self, Salt};

/// The salts of a tensor's words, the last one kept.
pub(crate) struct Salts {
    seed: u64,
    tensor: u32,
    page: u32,
    salt: Salt,
}

impl Salts {
    pub(crate) fn new(seed: u64, tensor: u32) -> Self {
        Self { seed, tensor, page: 0, salt: Salt::new(seed, tensor, 0) }
    }

    /// For `word` and those after it in its strip, or any others of which a page holds a whole number.
    #[inline(always)]
    pub(crate) fn at(&mut self, word: u64) -> Salt {
        let page = fingerprint::page(word);
        if page != self.page {
            (self.page, self.salt) = (page, Salt::new(self.seed, self.tensor, page));
        }
        self.salt
    }
}
