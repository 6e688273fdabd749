//! The receiver without a GPU: a session over memory the caller owns.

mod exchange;
mod memory;
mod receiver;

pub use memory::Memory;
pub use receiver::MemoryReceiver;

use crate::error::Error;
use crate::options::Options;
use pulse_format::{Fingerprint, Tensor};
use receiver::Extent;

/// A session over memory.
///
/// It holds, beside the caller's memory and what it keeps for [`Session::undo`], one segment's bytes, its changes and two runs of cells.
pub type Session<M> = crate::Session<MemoryReceiver<M>>;

impl<M: Memory> Session<M> {
    /// A session without tensors.
    pub fn new(options: Options) -> Self {
        Self::over(MemoryReceiver::default(), options)
    }

    /// Binds a tensor to the bytes of `memory` from `offset` on, which hold its cells packed, in row-major order, little-endian.
    ///
    /// # Errors
    /// [`Error::Binding`] if the memory is too short or overlaps what another tensor is bound to, the tensor has no size or is bound
    /// already; [`Error::Poisoned`].
    pub fn bind(&mut self, tensor: Tensor, memory: M, offset: usize) -> Result<(), Error> {
        self.check_sound()?;
        let bytes = tensor.cells().and_then(|cells| cells.get().checked_mul(tensor.dtype.cell_bytes() as u64));
        let refuse = |problem| Err(Error::Binding { tensor: tensor.name.clone(), problem });
        let end = bytes.and_then(|bytes| usize::try_from(bytes).ok()?.checked_add(offset));
        let length = memory.length();
        let Some(end) = end.filter(|end| *end <= length) else {
            return match bytes {
                Some(bytes) => refuse(format!("it needs {bytes} bytes from byte {offset} on, the memory has {length}")),
                None => refuse("its shape overflows, or does not fill whole bytes".into()),
            };
        };
        let spans = &self.receiver.spans;
        let overlaps = |(other, span): &(&Tensor, &usize)| {
            other.name != tensor.name && spans.overlaps(**span, &memory, &(offset..end))
        };
        if let Some((other, _)) = self.bound.iter().find(overlaps) {
            return refuse(Error::overlap(&other.name));
        }
        self.bound.bind(tensor, self.receiver.spans.len())?;
        self.receiver.spans.add(memory, offset..end);
        Ok(())
    }

    /// What a tensor is bound to.
    pub fn memory(&self, name: &str) -> Option<&M> {
        let (_, span) = self.bound.iter().find(|(tensor, _)| tensor.name == name)?;
        self.receiver.spans.memory(*span)
    }

    /// The fingerprint of all bound tensors with a seed of the caller's choice: the answer to a challenge.
    ///
    /// Tensor `i` is the `i`-th of those bound, by dtype code and name; where all of a checkpoint's tensors are bound, this is the
    /// fingerprint of the checkpoint.
    ///
    /// # Errors
    /// [`Error::Poisoned`], and those of the memory.
    pub fn fingerprint(&self, seed: u64) -> Result<Fingerprint, Error> {
        self.check_sound()?;
        let extents = (0u32..).zip(self.bound.iter()).map(|(index, (tensor, span))| {
            let bytes = tensor.cells().map_or(0, |cells| cells.get() as usize) * tensor.dtype.cell_bytes();
            Extent { tensor: index, span: *span, bytes: 0..bytes }
        });
        self.receiver.fingerprint(&extents.collect::<Vec<_>>(), seed)
    }
}
