//! Receivers on a GPU: kernels, planned as plain data, run by a port.

mod changes;
pub mod kernels;
mod layout;
mod plan;
pub mod port;
mod scratch;
mod session;
pub mod twin_port;

pub use layout::{Element, Layout};
pub use port::{DeviceLimits, Port};
pub use scratch::Counts;
pub use session::{Applied, Options, Session};
pub use twin_port::TwinPort;
