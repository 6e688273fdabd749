//! Receivers on a GPU: kernels, planned as plain data, run by a port.

pub mod kernels;
pub mod port;
pub mod twin_port;

pub use port::{DeviceLimits, Port};
pub use twin_port::TwinPort;
