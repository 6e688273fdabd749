//! What errors say, in one table, and that FORMAT.md, the code and the tests name the same rules.

use pulse_format::{Damage, Error, Fingerprint, Part};
use std::collections::BTreeSet;

const FORMAT: &str = include_str!("../../format/FORMAT.md");

#[test]
fn messages_say_what_where_and_by_how_much() {
    let expected = Fingerprint { a: 0x0123_4567, b: 0x89ab_cdef };
    let found = Fingerprint { a: 1, b: 2 };
    let table: &[(Error, &str, &str)] = &[
        (
            Error::Damaged { part: Part::Preamble, damage: Damage::Magic },
            "damaged",
            "damaged patch, preamble: this is not a Pulse patch (magic bytes differ) (rule 1)",
        ),
        (
            Error::Damaged { part: Part::Segment(7), damage: Damage::SegmentHash },
            "damaged",
            "damaged patch, segment 7: the segment's hash differs (rule 16)",
        ),
        (
            Error::Damaged { part: Part::End, damage: Damage::Trailing },
            "damaged",
            "damaged patch, end: bytes follow the last segment (rule 22)",
        ),
        (
            Error::Truncated { part: Part::Header, missing: 40 },
            "truncated",
            "the patch ends early, header: 40 more bytes expected",
        ),
        (
            Error::Truncated { part: Part::Payload, missing: 1 },
            "truncated",
            "the patch ends early, payload: 1 more bytes expected",
        ),
        (Error::Unsupported { what: "format version", found: 2 }, "unsupported", "unsupported format version 2"),
        (
            Error::WrongBase { segment: 3, found, expected },
            "wrong_base",
            "wrong base: segment 3 has fingerprint 0000000100000002, the patch starts from 0123456789abcdef",
        ),
        (
            Error::WrongTarget { segment: 3, found, expected },
            "wrong_target",
            "wrong result: segment 3 has fingerprint 0000000100000002 after the patch, expected 0123456789abcdef",
        ),
        (
            Error::Limit { what: "number of tensors", found: 9, allowed: 8 },
            "limit",
            "number of tensors is 9, over the limit of 8",
        ),
        (Error::Misuse { what: "there is no such segment" }, "misuse", "misuse: there is no such segment"),
    ];
    for (error, code, text) in table {
        assert_eq!((error.code(), error.to_string().as_str()), (*code, *text));
    }
}

#[test]
fn damages_have_their_texts() {
    let texts = [
        "this is not a Pulse patch (magic bytes differ)",
        "the header's hash differs",
        "the header's zstd frame is broken or of another length than declared",
        "a number is not in its shortest form or out of range",
        "a name or the run id is not UTF-8 or too long",
        "the target step is not after the base step",
        "a tensor has an unknown dtype",
        "tensors are not in strictly ascending order of dtype and name",
        "a tensor's shape overflows or does not fill whole bytes",
        "token frequencies do not sum to 4096 or have trailing zeros",
        "segments do not cover the tensors exactly",
        "a segment cuts a tensor off the block grid",
        "a segment's profile or model does not fit",
        "a segment's changes do not fit its cells or bytes",
        "bytes follow the header's last field",
        "the segment's hash differs",
        "changes per class do not sum to the segment's changes",
        "the entropy coded stream does not end where it began",
        "raw bits are missing, left over, badly packed or not padded with zeros",
        "a change lies outside the segment",
        "a byte plane is broken or of another length than declared",
        "bytes follow the last segment",
        "a ULP step is out of range for the cell width",
    ];
    let found: Vec<String> = Damage::ALL.iter().map(ToString::to_string).collect();
    let expected: Vec<String> = (1..).zip(texts).map(|(rule, text)| format!("{text} (rule {rule})")).collect();
    assert_eq!(found, expected);
}

#[test]
fn rules_have_one_number_everywhere() {
    let in_code: Vec<u32> = Damage::ALL.iter().map(|damage| damage.number().into()).collect();
    assert_eq!(in_code, (1..=in_code.len() as u32).collect::<Vec<_>>());
    let section = FORMAT.split("\n## ").find(|section| section.starts_with("8.")).expect("FORMAT.md has a section 8");
    let in_document: Vec<u32> =
        section.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next()?.parse().ok()).collect();
    assert_eq!(in_document, in_code, "the table of section 8");
    let tests = [include_str!("must_reject.rs"), include_str!("must_reject_payload.rs")];
    let tests = tests.iter().flat_map(|file| file.lines());
    let tests = tests.filter_map(|line| line.strip_prefix("fn rule_")?.get(..2)?.parse().ok());
    assert_eq!(tests.collect::<BTreeSet<u32>>(), in_code.into_iter().collect(), "the tests of the rules");
}

/// What a receiver does next depends on the code, so the specification names each. `misuse` is no property of a patch.
#[test]
fn codes_are_in_the_specification() {
    for code in ["damaged", "truncated", "unsupported", "wrong_base", "wrong_target", "limit"] {
        assert!(FORMAT.contains(&format!("*{code}*")), "FORMAT.md does not say what *{code}* means");
    }
}
