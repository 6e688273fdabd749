//! The bytes of a Pulse patch: from one BF16 checkpoint to the next, losslessly, in a few tenths of a percent of its size.
//!
//! FORMAT.md beside this crate is the specification; this is its first implementation. It does no IO, knows nothing of files or GPUs, and
//! borrows zstd from its caller through [`Deflate`] and [`Inflate`].
//!
//! - To read a patch from a stream, push its bytes into a [`Reader`]; to read it from memory, begin with [`Header::read`].
//! - To apply a segment, take it from the header ([`Header::segment`]), decode its payload ([`SegmentDecoder`]) and place the changes
//!   ([`Placer`]); [`apply`] is the short reference.
//! - To write one, compare the cells ([`scan`]), choose models ([`model`]), encode, and write a [`Header`].
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod apply;
mod bytes;
pub mod cell;
mod changed;
mod changes;
mod codec;
mod compare;
pub mod contextual;
pub mod dense;
mod dtype;
mod error;
mod fingerprint;
mod header;
pub mod layout;
mod limits;
pub mod masks;
pub mod model;
mod overwrites;
pub mod place;
mod plane;
pub mod positional;
mod rans;
mod raw;
mod reader;
mod region;
mod salts;
pub mod scan;
pub mod segment;
mod token;
mod tokens;
mod units;

pub use cell::FloatFormat;
pub use codec::{Deflate, Inflate};
pub use dtype::Dtype;
pub use error::{Damage, Error, Part};
pub use fingerprint::{Fingerprint, Salt, fingerprint};
pub use header::{Header, Piece, Preamble, Profile, Segment, Tensor};
pub use limits::Limits;
pub use overwrites::Overwritten;
pub use rans::Frequencies;
pub use reader::{Event, Reader};
pub use segment::{Changes, Placer, SegmentDecoder, SegmentView};
pub use units::{ByteLength, CellCount, CellIndex, Step};
