//! The JS surface: thin, for the wrapper in `npm/` to build on. All that users see is written and documented there.

#[cfg(feature = "cpu")]
mod cpu;
mod error;
mod gpu;
mod header;
mod hooks;
#[cfg(feature = "cpu")]
mod memory;
mod object;
#[cfg(feature = "wgpu")]
mod own_gpu;
#[cfg(feature = "wgpu")]
mod page_port;
mod session;
mod source;
