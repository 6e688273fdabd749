//! What a receiver needs of a GPU: plain buffers, a list of commands, and a way to read a few words back.

use super::kernels::{Kernel, Slot};
use crate::error::Error;

/// What a device allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Bytes that one storage binding covers at most.
    pub binding_bytes: u64,
    /// Bytes of one buffer at most.
    pub buffer_bytes: u64,
    /// A storage binding's offset is a multiple of this, a power of two.
    pub offset_alignment: u64,
    /// Workgroups of a dispatch, per dimension.
    pub workgroups: u32,
}

impl DeviceLimits {
    /// What every WebGPU device allows.
    pub const DEFAULT: Self =
        Self { binding_bytes: 128 << 20, buffer_bytes: 256 << 20, offset_alignment: 256, workgroups: 65_535 };

    /// What both allow.
    #[must_use]
    pub fn within(self, other: Self) -> Self {
        Self {
            binding_bytes: self.binding_bytes.min(other.binding_bytes),
            buffer_bytes: self.buffer_bytes.min(other.buffer_bytes),
            offset_alignment: self.offset_alignment.max(other.offset_alignment),
            workgroups: self.workgroups.min(other.workgroups),
        }
    }
}

/// What a buffer of ours is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// Read and written by kernels, written by the host, copied from.
    Storage,
    /// Parameters: read by kernels, written by the host.
    Uniform,
}

/// A range of a buffer that a kernel sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding<B> {
    /// Which buffer.
    pub buffer: B,
    /// In bytes; a multiple of the device's alignment.
    pub offset: u64,
    /// In bytes; a multiple of 4.
    pub bytes: u64,
}

/// One step of a submit. Each sees what those before it wrote.
#[derive(Debug, Clone)]
pub enum Command<B> {
    /// Sets a range to zeros; offset and length are multiples of 4.
    Clear(Binding<B>),
    /// Runs a kernel.
    Dispatch {
        /// Which.
        kernel: Kernel,
        /// Its parameters.
        params: Binding<B>,
        /// Its buffers.
        slots: Vec<(Slot, Binding<B>)>,
        /// Workgroups in all; the port spreads them over two dimensions.
        workgroups: u32,
    },
}

/// A device that a receiver works on. Implementations hold no state of the receiver's.
///
/// Errors that a device reports later (most do) come from the next [`Port::read`] or [`Port::settle`].
#[expect(async_fn_in_trait, reason = "devices belong to one thread, in browsers above all")]
pub trait Port {
    /// A handle to a buffer; cloning it clones the handle, and handles to one buffer are equal.
    type Buffer: Clone + PartialEq;

    /// What the device allows.
    fn limits(&self) -> DeviceLimits;

    /// Bytes of a buffer.
    fn size(&self, buffer: &Self::Buffer) -> u64;

    /// Whether kernels may read and write a buffer, and it may be copied from: what a weights buffer needs.
    fn usable(&self, buffer: &Self::Buffer) -> bool;

    /// A new buffer of zeros; `bytes` is a multiple of 4.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::DeviceLost`], [`Error::Gpu`].
    fn create(&self, label: &'static str, bytes: u64, usage: Usage) -> Result<Self::Buffer, Error>;

    /// Frees a buffer that [`Port::create`] made.
    fn destroy(&self, buffer: &Self::Buffer);

    /// Writes bytes, before the next submit; offset and length are multiples of 4.
    ///
    /// # Errors
    /// As [`Port::create`].
    fn write(&self, buffer: &Self::Buffer, offset: u64, bytes: &[u8]) -> Result<(), Error>;

    /// Runs commands, after all earlier ones.
    ///
    /// # Errors
    /// As [`Port::create`].
    fn submit(&self, commands: &[Command<Self::Buffer>]) -> Result<(), Error>;

    /// Waits for everything before and reads a range; offset and length are multiples of 4.
    ///
    /// # Errors
    /// As [`Port::create`], and whatever the device reported since the last wait.
    async fn read(&self, buffer: &Self::Buffer, offset: u64, bytes: u64) -> Result<Vec<u8>, Error>;

    /// Waits for everything before.
    ///
    /// # Errors
    /// As [`Port::read`].
    async fn settle(&self) -> Result<(), Error>;
}

/// A session may borrow its port.
impl<P: Port> Port for &P {
    type Buffer = P::Buffer;

    fn limits(&self) -> DeviceLimits {
        (**self).limits()
    }

    fn size(&self, buffer: &Self::Buffer) -> u64 {
        (**self).size(buffer)
    }

    fn usable(&self, buffer: &Self::Buffer) -> bool {
        (**self).usable(buffer)
    }

    fn create(&self, label: &'static str, bytes: u64, usage: Usage) -> Result<Self::Buffer, Error> {
        (**self).create(label, bytes, usage)
    }

    fn destroy(&self, buffer: &Self::Buffer) {
        (**self).destroy(buffer);
    }

    fn write(&self, buffer: &Self::Buffer, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        (**self).write(buffer, offset, bytes)
    }

    fn submit(&self, commands: &[Command<Self::Buffer>]) -> Result<(), Error> {
        (**self).submit(commands)
    }

    async fn read(&self, buffer: &Self::Buffer, offset: u64, bytes: u64) -> Result<Vec<u8>, Error> {
        (**self).read(buffer, offset, bytes).await
    }

    async fn settle(&self) -> Result<(), Error> {
        (**self).settle().await
    }
}

/// Refuses what is not whole words within a buffer: a device would say so too late, or panic.
pub(crate) fn check_range(size: u64, offset: u64, bytes: u64) -> Result<(), Error> {
    let fits = offset.checked_add(bytes).is_some_and(|end| end <= size);
    if fits && offset.is_multiple_of(4) && bytes.is_multiple_of(4) {
        return Ok(());
    }
    Err(Error::Misuse { what: "a range of a GPU buffer that is not whole words within it".into() })
}

/// Workgroups as the two dimensions of a dispatch.
pub(crate) fn dimensions(workgroups: u32, limit: u32) -> (u32, u32) {
    let x = workgroups.min(limit).max(1);
    (x, workgroups.div_ceil(x))
}
