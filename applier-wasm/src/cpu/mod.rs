//! The receiver without a GPU: a session over memory the caller owns.

mod memory;
mod segment;
mod session;

pub use memory::Memory;
pub use session::{Applied, Session};
