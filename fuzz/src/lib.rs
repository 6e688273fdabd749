//! What the targets share: a codec, patches with right hashes around fuzzed bytes, small checkpoints cut in any way.
#![forbid(unsafe_code)]

mod codec;
mod shape;

pub use codec::{Codec, sealed};
pub use shape::Shape;
