//! History that grows without end while the head does not.

use crate::support::{anchor, made, patch};
use pulse_channel::{Entry, Error, Hash, Page, PageRef, hash, layout};
use std::collections::HashMap;

/// The entries of all pages, the oldest first.
fn all(mut at: Option<PageRef>, pages: &HashMap<Hash, Vec<u8>>) -> Vec<Entry> {
    let mut entries = Vec::new();
    while let Some(reference) = at {
        let page = Page::parse(&pages[&reference.hash], &reference, "a run").unwrap();
        entries.splice(0..0, page.entries);
        at = page.before;
    }
    entries
}

#[test]
fn appending_in_any_portions_keeps_every_entry_in_order() {
    let entries: Vec<_> = (0..5000).map(|step| patch(step, step + 1, step)).collect();
    let mut pages = HashMap::<Hash, Vec<u8>>::new();
    let mut newest: Option<PageRef> = None;
    let mut rest = entries.as_slice();
    for portion in [1, 31, 32, 1000, 1024, 7, 2000, 905].into_iter().cycle() {
        let (now, later) = rest.split_at(portion.min(rest.len()));
        rest = later;
        let before =
            newest.map(|reference| (reference, Page::parse(&pages[&reference.hash], &reference, "a run").unwrap()));
        for page in Page::append("a run", before, now.to_vec()).unwrap() {
            assert!(page.bytes.len() <= layout::MAX_PAGE_BYTES);
            pages.insert(page.reference.hash, page.bytes);
            newest = Some(page.reference);
        }
        assert_eq!(newest.unwrap().entries as usize, entries.len() - rest.len());
        if rest.is_empty() {
            break;
        }
    }
    assert_eq!(all(newest, &pages), entries);
    // Not one page more than needed at the end.
    let mut count = 0;
    let mut at = newest;
    while let Some(reference) = at {
        count += 1;
        at = Page::parse(&pages[&reference.hash], &reference, "a run").unwrap().before;
    }
    assert_eq!(count, entries.len().div_ceil(layout::PAGE_ENTRIES));
}

#[test]
fn every_flipped_bit_of_a_page_is_refused() {
    let made = made((0..40).map(|step| patch(step, step + 1, 9)).collect());
    let reference = made.head.history.unwrap();
    let bytes = &made.pages[&reference.hash];
    Page::parse(bytes, &reference, "a run").unwrap();
    for place in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[place] ^= 1;
        assert_eq!(Page::parse(&flipped, &reference, "a run").unwrap_err().code(), "damaged");
    }
}

/// A page whose hash is right, as a careless publisher would make it.
#[test]
fn pages_that_break_a_rule_are_refused() {
    let made = made((0..40).map(|step| patch(step, step + 1, 9)).collect());
    let reference = made.head.history.unwrap();
    let page = Page::parse(&made.pages[&reference.hash], &reference, "a run").unwrap();
    let check = |page: &Page, edit: fn(&mut PageRef), expected: &str| {
        let bytes = serde_json::to_vec(page).unwrap();
        let mut reference = PageRef { hash: hash(&bytes), bytes: bytes.len() as u64, ..reference };
        edit(&mut reference);
        let error = Page::parse(&bytes, &reference, "a run").unwrap_err();
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    };
    check(&page, |reference| reference.entries += 1, "not as many");
    check(&page, |reference| reference.to += 1, "newest step");
    check(&Page { run: "another".to_string(), ..page.clone() }, |_| {}, "another");
    check(&Page { format: "pulse channel history 9".to_string(), ..page.clone() }, |_| {}, "does not read");
    let mut disordered = page.clone();
    disordered.entries.swap(3, 4);
    check(&disordered, |_| {}, "out of order");
    let before = Some(PageRef { entries: 0, to: 30, ..reference });
    check(&Page { before, ..page.clone() }, |_| {}, "out of order");
    let before = Some(PageRef { entries: u64::MAX, ..reference });
    check(&Page { before, ..page.clone() }, |_| {}, "as many");
    let mut long = page;
    long.entries = (0..=layout::PAGE_ENTRIES as u64).map(|step| anchor(step, 1)).collect();
    check(&long, |reference| (reference.entries, reference.to) = (1025, 1024), "more than 1,024");
    assert!(matches!(Page::append("a run", None, vec![patch(4, 5, 1), patch(2, 3, 1)]), Err(Error::Page { .. })));
}
