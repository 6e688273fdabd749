//! Receivers on a GPU: kernels, planned as plain data, run by a port.

pub mod canary;
mod changes;
pub mod half;
#[cfg(target_arch = "wasm32")]
pub mod js_port;
pub mod kernels;
mod layout;
mod plan;
pub mod port;
mod reading;
#[cfg(feature = "wgpu")]
mod reply;
mod scratch;
mod session;
mod side;
pub mod twin_port;
#[cfg(feature = "wgpu")]
pub mod wgpu_port;

#[cfg(target_arch = "wasm32")]
pub use js_port::JsPort;
pub use layout::{Element, Layout};
pub use port::{DeviceLimits, Port};
pub use scratch::Counts;
pub use session::{Applied, Options, Session};
pub use twin_port::TwinPort;
#[cfg(feature = "wgpu")]
pub use wgpu_port::WgpuPort;
