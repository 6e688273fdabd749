//! What the tests, benches and `cargo xtask` share: real checkpoints, and regular updates that are made up.
//!
//! ```
//! use pulse_tests::fixtures::{ChainName, ExcerptChain};
//!
//! let chain = ExcerptChain::load(ChainName::Mature);
//! let base = chain.step_bytes(20); // whole safetensors files, checked against their hashes
//! let target = chain.step_bytes(21);
//! assert_eq!(base.len(), target.len());
//! ```
//!
//! This is test code: a fixture that is missing or wrong panics and says what to do. It depends on no other crate of
//! the workspace, so that nothing it says about a checkpoint rests on the code under test.
#![forbid(unsafe_code)]

pub mod fixtures;
pub mod random;
pub mod regular;
