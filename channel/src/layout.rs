//! Every name and number of a channel.

/// Where the head lies.
pub const HEAD: &str = "head.json";
/// Where objects lie.
pub const OBJECTS: &str = "objects/";
/// Where history pages lie.
pub const HISTORY: &str = "history/";

/// What the head's body says of its format.
pub const HEAD_FORMAT: &str = "pulse channel 1";
/// The same of a history page.
pub const PAGE_FORMAT: &str = "pulse channel history 1";
/// What comes before a head's body in the signed message: no signature of ours holds for anything else.
pub const HEAD_DOMAIN: &[u8] = b"pulse channel head 1\0";
/// The same of a key rotation.
pub const ROTATION_DOMAIN: &[u8] = b"pulse channel rotation 1\0";

/// Longest head, in bytes.
pub const MAX_HEAD_BYTES: usize = 16 << 10;
/// A head is written with fewer bytes of entries than this, so that the rest has room.
pub const MAX_TAIL_BYTES: usize = 12 << 10;
/// Most entries that a head is written with; beyond, the oldest go to the history.
pub const MAX_TAIL: usize = 48;
/// How many entries stay in the head when the others go.
pub const KEPT_TAIL: usize = 16;
/// Most entries of a history page.
pub const PAGE_ENTRIES: usize = 1024;
/// Longest history page, in bytes.
pub const MAX_PAGE_BYTES: usize = 512 << 10;
/// Most key rotations that a head carries.
pub const MAX_ROTATIONS: usize = 8;
/// Longest name of a run, in bytes.
pub const MAX_RUN_BYTES: usize = pulse_format::layout::MAX_RUN_ID_BYTES;
/// Longest name of a kind, in bytes.
pub const MAX_KIND_BYTES: usize = 32;
/// Largest number that every JSON reader keeps exactly: 2^53 - 1.
pub const MAX_NUMBER: u64 = (1 << 53) - 1;
/// How far a head may come from the future, in seconds, before somebody's clock is called wrong.
pub const CLOCK_SLACK: u64 = 600;
/// Most steps that the planner keeps in mind at once.
pub const MAX_OPEN_STEPS: usize = 1 << 20;

const _: () = assert!(KEPT_TAIL < MAX_TAIL && MAX_TAIL < PAGE_ENTRIES);
const _: () = assert!(MAX_TAIL_BYTES < MAX_HEAD_BYTES);
// An entry has less than 320 bytes, whatever its kind and its numbers.
const _: () = assert!(PAGE_ENTRIES * 320 < MAX_PAGE_BYTES);
