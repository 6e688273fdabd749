//! One head after another: numbered, dated, signed, put in place of the one that was read.

use super::access::ServedHead;
use super::clock::now;
use super::error::Error;
use super::keys::SecretKey;
use super::publisher::Publisher;
use crate::head::Head;
use crate::layout::{HEAD_FORMAT, KEPT_TAIL, MAX_TAIL, MAX_TAIL_BYTES};
use crate::page::Page;
use crate::{Entry, SignedHead, TrustedHead};
use pulse_encoder::Progress;
use pulse_format::Fingerprint;
use std::fs;

impl Publisher {
    /// What the first head of a channel is made of: no entries yet.
    pub(super) fn first_head(&self, run: &str, step: u64, fingerprint: Fingerprint) -> Head {
        let created = now();
        Head {
            format: HEAD_FORMAT.to_string(),
            run: run.to_string(),
            sequence: 0,
            previous: None,
            created,
            expires: created.after(self.options.expires),
            since: step,
            step,
            fingerprint,
            key: self.key.public(),
            rotations: Vec::new(),
            history: None,
            entries: Vec::new(),
        }
    }

    /// The head after `before`, which says the same.
    pub(super) fn next_head(&self, before: &TrustedHead) -> Result<Head, Error> {
        let head = &before.head;
        if head.key != self.key.public() {
            let why = format!(
                "the channel's key is {} by now, and this one is {}; use that one",
                head.key,
                self.key.public()
            );
            return Err(Error::Usage(why));
        }
        let created = now();
        let expires = created.after(self.options.expires);
        Ok(Head { sequence: head.sequence + 1, previous: Some(before.hash), created, expires, ..head.clone() })
    }

    /// Puts `head`, signed by `key`, in the place of `before`; entries that it has no room for go into pages first.
    pub(super) fn put_head(
        &self,
        mut head: Head,
        key: &SecretKey,
        before: Option<&ServedHead>,
        progress: &dyn Progress,
    ) -> Result<(), Error> {
        let length: usize =
            head.entries.iter().map(|entry| serde_json::to_string(entry).map_or(0, |text| text.len() + 6)).sum();
        if head.entries.len() > MAX_TAIL || length > MAX_TAIL_BYTES {
            let kept = head.entries.split_off(head.entries.len().saturating_sub(KEPT_TAIL));
            let moved = std::mem::replace(&mut head.entries, kept);
            self.page_out(&mut head, moved, progress)?;
        }
        let bytes = SignedHead::write(&head, |message| key.sign(message))?;
        self.store.replace_head(&bytes, before)?;
        // The mark moves by what is there.
        self.head().map(|_| ())
    }

    /// Adds `entries`, which are older than those of the head, to its history.
    pub(super) fn page_out(&self, head: &mut Head, entries: Vec<Entry>, progress: &dyn Progress) -> Result<(), Error> {
        let newest = match head.history {
            Some(page) => Some((page, Page::parse(&self.store.page(&page)?, &page, &head.run)?)),
            None => None,
        };
        let file = self.path("page");
        for page in Page::append(&head.run, newest, entries)? {
            fs::write(&file, &page.bytes).map_err(Error::io("cannot write", &file))?;
            self.store.store(&page.reference.path(), &file, progress)?;
            head.history = Some(page.reference);
        }
        Ok(())
    }
}
