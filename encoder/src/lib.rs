//! The trainer's side of Pulse: two checkpoints in, a patch out, and back.
//!
//! ```no_run
//! use pulse_encoder::{EncodeOptions, Silent, apply_file, encode_file};
//! # fn main() -> Result<(), pulse_encoder::Error> {
//! let header = encode_file("step_25".as_ref(), "step_26".as_ref(), "26.pulse".as_ref(), &EncodeOptions::default(), &Silent)?;
//! println!("{} of {} cells changed", header.changes(), header.cells());
//! apply_file("26.pulse".as_ref(), "step_25".as_ref(), "rebuilt_26".as_ref(), &Silent)?;
//! # Ok(())
//! # }
//! ```
//!
//! Checkpoints are `.safetensors` files or folders in Hugging Face layout ([`Checkpoint`]). Work runs in the current rayon thread pool;
//! long calls report to a [`Progress`] and stop when it says so. Nothing here prints.
#![deny(unsafe_code)]

mod apply;
mod cast;
mod checkpoint;
mod cut;
mod diff;
mod encode;
mod error;
mod files;
mod folder;
mod inputs;
mod looks;
mod map;
mod models;
mod names;
mod output;
mod pack;
mod pair;
mod patch_file;
mod printable;
mod profile;
mod progress;
mod safetensors_header;
mod stale;
mod temporary;
mod tree;
mod unpack;
mod zstd;

pub use apply::{Sink, apply};
pub use cast::Cast;
pub use checkpoint::{Checkpoint, StoredTensor};
pub use diff::{ClassDiff, Diff, FormatDiff, STEP_BUCKETS, TensorDiff, diff};
pub use encode::{EncodeOptions, Patch, ProfileChoice, encode};
pub use error::{Error, TensorMismatch};
pub use files::{Rebuilt, apply_file, encode_file, pack_file, unpack_file, verify_anchor_file, verify_file};
#[cfg(all(unix, feature = "guard"))]
pub use map::guard_maps;
pub use output::is_standard_output;
pub use pack::{PackOptions, pack};
pub use patch_file::PatchFile;
pub use printable::printable;
pub use progress::{Progress, Silent};
pub use tree::{OtherFiles, weights_outside};
pub use zstd::Zstd;

/// The README's examples in Rust compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
