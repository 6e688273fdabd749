//! A port without a GPU: runs the twins, at once.

use super::kernels::words::Bound;
use super::kernels::{Kernel, Params, Slot, twin};
use super::port::{Binding, Command, DeviceLimits, Port, Usage};
use crate::error::Error;
use std::cell::RefCell;
use std::rc::Rc;

/// The twins as a device. It can be told to have small limits.
#[derive(Debug, Clone)]
pub struct TwinPort {
    limits: DeviceLimits,
}

/// Words of a [`TwinPort`].
#[derive(Debug, Clone)]
pub struct TwinBuffer(Rc<RefCell<Vec<u32>>>);

impl PartialEq for TwinBuffer {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl TwinPort {
    /// A device with these limits.
    pub fn new(limits: DeviceLimits) -> Self {
        Self { limits }
    }

    /// A buffer that holds `bytes`, padded with zeros to a multiple of 4.
    pub fn buffer_of(&self, bytes: &[u8]) -> TwinBuffer {
        let mut words = vec![0u32; bytes.len().div_ceil(4)];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks(4)) {
            let mut whole = [0; 4];
            whole.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            *word = u32::from_le_bytes(whole);
        }
        TwinBuffer(Rc::new(RefCell::new(words)))
    }

    fn run(kernel: Kernel, params: Params, slots: &[(Slot, Binding<TwinBuffer>)], workgroups: u32) {
        // Each binding is taken out, worked on, and put back: two of them may lie in one buffer.
        let mut bound = Bound::default();
        for (slot, binding) in slots {
            bound.slot(*slot).0 = words_of(binding);
        }
        for workgroup in 0..workgroups {
            twin::run(kernel, params, workgroup, &mut bound);
        }
        for (slot, binding) in slots {
            with_words(binding, |words| words.copy_from_slice(&bound.slot(*slot).0));
        }
    }
}

fn words_of(binding: &Binding<TwinBuffer>) -> Vec<u32> {
    let mut copy = Vec::new();
    with_words(binding, |words| copy.extend_from_slice(words));
    copy
}

fn with_words(binding: &Binding<TwinBuffer>, work: impl FnOnce(&mut [u32])) {
    let (start, length) = ((binding.offset / 4) as usize, (binding.bytes / 4) as usize);
    let mut words = binding.buffer.0.borrow_mut();
    if let Some(words) = words.get_mut(start..start + length) {
        work(words);
    }
}

impl Port for TwinPort {
    type Buffer = TwinBuffer;

    fn limits(&self) -> DeviceLimits {
        self.limits
    }

    fn size(&self, buffer: &TwinBuffer) -> u64 {
        4 * buffer.0.borrow().len() as u64
    }

    fn usable(&self, _: &TwinBuffer) -> bool {
        true
    }

    fn create(&self, label: &'static str, bytes: u64, _: Usage) -> Result<TwinBuffer, Error> {
        if bytes > self.limits.buffer_bytes {
            return Err(Error::OutOfMemory { message: format!("{label}: {bytes} bytes") });
        }
        Ok(TwinBuffer(Rc::new(RefCell::new(vec![0; (bytes / 4) as usize]))))
    }

    fn destroy(&self, _: &TwinBuffer) {}

    fn write(&self, buffer: &TwinBuffer, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let binding = Binding { buffer: buffer.clone(), offset, bytes: bytes.len() as u64 };
        with_words(&binding, |words| {
            let from = bytes.as_chunks::<4>().0;
            words.iter_mut().zip(from).for_each(|(word, bytes)| *word = u32::from_le_bytes(*bytes));
        });
        Ok(())
    }

    fn submit(&self, commands: &[Command<TwinBuffer>]) -> Result<(), Error> {
        for command in commands {
            match command {
                Command::Clear(binding) => with_words(binding, |words| words.fill(0)),
                Command::Dispatch { kernel, params, slots, workgroups } => {
                    Self::run(*kernel, Params::from_words(&words_of(params)), slots, *workgroups);
                }
            }
        }
        Ok(())
    }

    async fn read(&self, buffer: &TwinBuffer, offset: u64, bytes: u64) -> Result<Vec<u8>, Error> {
        let words = words_of(&Binding { buffer: buffer.clone(), offset, bytes });
        Ok(words.into_iter().flat_map(u32::to_le_bytes).collect())
    }

    async fn settle(&self) -> Result<(), Error> {
        Ok(())
    }
}
