//! Everything that a channel lists, read from its pages.

use super::access::Store;
use super::error::Error;
use crate::page::Page;
use crate::{Entry, Head};
use std::collections::BTreeMap;

/// What a channel lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// By `to`, the oldest first.
    pub entries: Vec<Entry>,
    /// Path and newest step of each page that was read.
    pub pages: BTreeMap<String, u64>,
}

impl Store {
    /// The entries of the head and of all pages that reach `from`. A page has up to half a mebibyte, and about 500 steps.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Swapped`], [`crate::Error::Page`], and those of the place.
    pub fn listing(&self, head: &Head, from: u64) -> Result<Listing, Error> {
        let (mut older, mut pages, mut next) = (Vec::new(), BTreeMap::new(), head.history);
        while let Some(page) = next.filter(|page| page.to >= from) {
            let read = Page::parse(&self.page(&page)?, &page, &head.run)?;
            pages.insert(page.path(), page.to);
            older.push(read.entries);
            next = read.before;
        }
        let entries = older.into_iter().rev().flatten().chain(head.entries.iter().cloned()).collect();
        Ok(Listing { entries, pages })
    }
}
