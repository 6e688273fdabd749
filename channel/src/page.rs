//! History pages: entries that the head has no room for, in immutable objects that it names by their hash.

use crate::entry::Entry;
use crate::error::Error;
use crate::hex::{Hash, hash};
use crate::layout::{HISTORY, MAX_NUMBER, MAX_PAGE_BYTES, PAGE_ENTRIES, PAGE_FORMAT};
use serde::{Deserialize, Serialize};

/// Names a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRef {
    /// BLAKE3 of its bytes.
    pub hash: Hash,
    /// Its length.
    pub bytes: u64,
    /// Entries in it and in all pages before it.
    pub entries: u64,
    /// The newest step that an entry in it leads to.
    pub to: u64,
}

impl PageRef {
    /// Where the page lies in the channel.
    pub fn path(&self) -> String {
        format!("{HISTORY}{}.json", self.hash)
    }

    fn check(&self) -> Result<(), String> {
        match self {
            Self { bytes, .. } if *bytes > MAX_PAGE_BYTES as u64 => Err("it names a page that is too long".to_string()),
            Self { entries, to, .. } if *entries > MAX_NUMBER || *to > MAX_NUMBER => {
                Err("a number is over 2^53 - 1".to_string())
            }
            _ => Ok(()),
        }
    }
}

/// A page. The newest holds up to 1,024 entries and is written anew with more; older ones stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// [`PAGE_FORMAT`].
    pub format: String,
    /// As in the head.
    pub run: String,
    /// The page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<PageRef>,
    /// By `to`.
    pub entries: Vec<Entry>,
}

impl Page {
    /// Reads the page that `reference` names: `bytes` are what was served under its name.
    ///
    /// # Errors
    /// [`Error::Page`], [`Error::Unsupported`].
    pub fn parse(bytes: &[u8], reference: &PageRef, run: &str) -> Result<Self, Error> {
        let damaged = |what: String| Error::Page { hash: reference.hash, what };
        if hash(bytes) != reference.hash {
            return Err(damaged("its bytes have another hash".to_string()));
        }
        crate::json::check_format(bytes, PAGE_FORMAT, damaged)?;
        let page: Self = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        page.check(reference, run).map_err(damaged)?;
        Ok(page)
    }

    fn check(&self, reference: &PageRef, run: &str) -> Result<(), String> {
        let before = self.before.as_ref().map_or(0, |before| before.entries);
        if self.run != run {
            return Err(format!("it is of run {:?}", self.run));
        }
        if self.entries.len() > PAGE_ENTRIES {
            return Err("it has more than 1,024 entries".to_string());
        }
        if before.checked_add(self.entries.len() as u64) != Some(reference.entries) {
            return Err("its entries are not as many as was said".to_string());
        }
        if self.entries.last().is_none_or(|entry| entry.to != reference.to) {
            return Err("its newest step is not the one that was said".to_string());
        }
        self.entries.iter().try_for_each(Entry::check).map_err(|error| error.to_string())?;
        check_order(&self.entries, self.before.as_ref(), reference.to)
    }

    /// Adds `entries`, which are newer than all so far, after the page at `newest` (with its reference): the pages to be written, the last of
    /// which the head is to name.
    ///
    /// # Errors
    /// [`Error::Page`] if the entries are out of order.
    pub fn append(run: &str, newest: Option<(PageRef, Self)>, entries: Vec<Entry>) -> Result<Vec<WrittenPage>, Error> {
        let mut before = None;
        let mut pending = entries;
        if let Some((reference, page)) = newest {
            if page.entries.len() < PAGE_ENTRIES {
                // The page is written anew, with more.
                before = page.before;
                pending.splice(0..0, page.entries);
            } else {
                before = Some(reference);
            }
        }
        let mut written: Vec<WrittenPage> = Vec::new();
        for entries in pending.chunks(PAGE_ENTRIES) {
            let page =
                Self { format: PAGE_FORMAT.to_string(), run: run.to_string(), before, entries: entries.to_vec() };
            let page = page.write()?;
            before = Some(page.reference);
            written.push(page);
        }
        Ok(written)
    }

    fn write(&self) -> Result<WrittenPage, Error> {
        let damaged = |what: String| Error::Page { hash: hash(&[]), what };
        let bytes = crate::json::to_lines(self).map_err(|error| damaged(error.to_string()))?;
        let before = self.before.as_ref().map_or(0, |before| before.entries);
        let reference = PageRef {
            hash: hash(&bytes),
            bytes: bytes.len() as u64,
            entries: before + self.entries.len() as u64,
            to: self.entries.last().map_or(0, |entry| entry.to),
        };
        self.check(&reference, &self.run).map_err(damaged)?;
        Ok(WrittenPage { reference, bytes })
    }
}

/// A page that is to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenPage {
    /// Its name.
    pub reference: PageRef,
    /// What is stored under it.
    pub bytes: Vec<u8>,
}

/// Entries go by `to`, follow those of the page before, and none leads beyond `newest`.
pub(crate) fn check_order(entries: &[Entry], before: Option<&PageRef>, newest: u64) -> Result<(), String> {
    before.map_or(Ok(()), PageRef::check)?;
    let mut last = before.map_or(0, |before| before.to);
    for entry in entries {
        if entry.to < last || entry.to > newest {
            return Err(format!("the {} of step {} is out of order", entry.kind, entry.to));
        }
        last = entry.to;
    }
    let same =
        entries.array_windows().find(|[left, right]| left.to == right.to && left.fingerprint != right.fingerprint);
    same.map_or(Ok(()), |[left, _]| Err(format!("step {} has two fingerprints", left.to)))
}
