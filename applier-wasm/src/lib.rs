//! Applies Pulse patches where the weights are: in GPU buffers of an engine that is not ours, or in memory.
//!
//! A receiver binds its tensors, then applies patch after patch. Each is verified whole, written, and verified again; whatever fails
//! leaves the old weights, the new ones, or a receiver that says it is poisoned.
//!
//! - With a GPU: a [`gpu::Session`] over a [`gpu::Port`].
//! - Without: a [`cpu::Session`] over memory the caller owns.
//!
//! Both are a [`Session`], which holds the order of an apply, over a [`receiver::Receiver`] of their own.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

pub mod bound;
#[cfg(feature = "cpu")]
pub mod cpu;
mod error;
pub mod gpu;
mod hooks;
mod inflate;
#[cfg(target_arch = "wasm32")]
mod js;
mod options;
mod patch;
pub mod receiver;
mod session;
mod source;

pub use error::Error;
pub use hooks::{Hooks, Intent, NoHooks, Phase, Progress};
pub use inflate::Zstd;
pub use options::Options;
pub use patch::Patch;
pub use session::{Applied, Session};
pub use source::Source;
