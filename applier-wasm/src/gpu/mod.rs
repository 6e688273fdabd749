//! Receivers on a GPU: kernels, planned as plain data, run by a port.

pub mod canary;
mod changes;
pub mod half;
mod job;
#[cfg(target_arch = "wasm32")]
pub mod js_port;
pub mod kernels;
mod layout;
mod plan;
pub mod port;
mod reading;
mod receiver;
#[cfg(feature = "wgpu")]
mod reply;
mod results;
mod scratch;
mod session;
mod side;
mod sides;
pub mod twin_port;
#[cfg(feature = "wgpu")]
pub mod wgpu_port;

pub use job::Job;
#[cfg(target_arch = "wasm32")]
pub use js_port::JsPort;
pub use layout::{Element, Layout, Located};
pub use port::{DeviceLimits, Port};
pub use receiver::GpuReceiver;
pub use scratch::Counts;
pub use session::Session;
pub use twin_port::TwinPort;
#[cfg(feature = "wgpu")]
pub use wgpu_port::WgpuPort;
