//! The sparse weight patch formats of other systems: a reader and a writer each.
//!
//! Re-created from published facts, so that their patches can be converted, and so that benches can
//! compare against them under equal conditions: same diff, same verification, same machine. A cell is
//! a BF16 bit pattern held in a `u16` and is never read as a float, so both zeros and all NaN payloads
//! survive.
//!
//! | module | format | the peer's own code reads a patch of ours | carries a digest |
//! |---|---|---|---|
//! | [`trl`] | TRL's safetensors file, v1 and `gap_delta` | yes | no |
//! | [`grail`] | `sparse_codec` v2, v3 and v3.1 | yes | no |
//! | [`pulsept1`] | PULSEPT1 v1, v2 and v3 | yes | of the base, of the target and of each tensor |
//! | [`xor`] | XOR of whole tensors, as slime, miles, ModelExpress and SkyRL ship it | **no: the frames are theirs, the file is ours** | of each changed tensor |
//!
//! A patch is one file, or the bytes of one, here. Peers that ship a folder keep checksums and versions in an index or a
//! manifest next to the tensors, and that folder is neither read nor written: a bare XOR file makes an SGLang receiver
//! delete its model ([`xor`] says why).
//!
//! ```
//! use pulse_interop::{Checkpoint, Limits, PatchFormat, Steps, Tensor, pulsept1::PulsePt1};
//!
//! # fn main() -> Result<(), pulse_interop::Error> {
//! let (old, new) = ([0x3F80, 0x0000, 0xBF80], [0x3F81, 0x8000, 0xBF80]);
//! let base = Checkpoint::new(vec![Tensor { name: "w", shape: vec![3], cells: &old }])?;
//! let target = Checkpoint::new(vec![Tensor { name: "w", shape: vec![3], cells: &new }])?;
//!
//! let format = PulsePt1::v3();
//! let bytes = format.encode(Steps { base: 7, target: 8 }, &base, &target)?;
//! let patch = format.decode(&bytes, &base, &Limits::default())?;
//! assert_eq!(patch.tensors[0].indices, [0, 1]);
//!
//! let mut cells = base.to_cells();
//! format.apply(&bytes, &base, &mut cells, &Limits::default())?;
//! assert_eq!(cells[0], new);
//! # Ok(())
//! # }
//! ```
//!
//! Patches are untrusted input: readers spend [`Limits`] before they allocate, check every count, offset
//! and index, and never panic on bytes. Only PULSEPT1 and XOR can notice a wrong base of the right shape.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::indexing_slicing)
)]

mod bytes;
mod checkpoint;
mod diff;
mod digest;
mod error;
mod format;
pub mod grail;
mod limits;
mod patch;
pub mod pulsept1;
mod safetensors_file;
pub mod trl;
pub mod xor;
mod zstd_frame;

pub use checkpoint::{Checkpoint, Steps, Tensor};
pub use digest::Digest;
pub use error::Error;
pub use format::{PatchFormat, all};
pub use limits::Limits;
pub use patch::{SparsePatch, TensorChanges};
