//! The JS surface: thin, for the wrapper in `npm/` to build on. All that users see is written and documented there.

mod cpu;
mod error;
mod expand;
mod gpu;
mod header;
mod hooks;
mod memory;
mod object;
mod source;
