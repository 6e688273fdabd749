//! The devices that JS may bring, as one port: a page's own, and where there is wgpu, one that it opened. One port is one copy of
//! all that is generic over it, in a module that is downloaded.

use crate::error::Error;
use crate::gpu::js_port::{JsBuffer, JsPort};
use crate::gpu::port::{Binding, Command, DeviceLimits, Port, Usage};
use crate::gpu::wgpu_port::{WgpuBuffer, WgpuPort};
use std::cell::RefCell;
use wasm_bindgen::JsValue;

/// A device of either kind.
pub(super) enum PagePort {
    /// The page's.
    Page(JsPort),
    /// Ours, and the weights that are there.
    Own(WgpuPort, RefCell<Vec<WgpuBuffer>>),
}

impl From<JsPort> for PagePort {
    fn from(port: JsPort) -> Self {
        Self::Page(port)
    }
}

impl PagePort {
    /// Over a device that is ours.
    pub(super) fn own(port: WgpuPort) -> Self {
        Self::Own(port, RefCell::default())
    }

    /// A buffer of the page's.
    pub(super) fn buffer(&self, buffer: JsValue) -> Result<PageBuffer, Error> {
        match self {
            Self::Page(port) => port.buffer(buffer).map(PageBuffer::Page),
            Self::Own(..) => Err(foreign()),
        }
    }

    /// Keeps a buffer of weights until the end; gives the `GPUBuffer`.
    pub(super) fn adopt_weights(&self, buffer: &PageBuffer) -> Result<JsValue, Error> {
        match (self, buffer) {
            (Self::Own(_, weights), PageBuffer::Own(buffer)) => {
                weights.borrow_mut().push(buffer.clone());
                Ok(buffer.as_js().unwrap_or_default())
            }
            _ => Err(foreign()),
        }
    }

    /// The `GPUDevice` that is ours.
    pub(super) fn own_device(&self) -> JsValue {
        match self {
            Self::Page(_) => JsValue::UNDEFINED,
            Self::Own(port, _) => port.device_as_js().unwrap_or_default(),
        }
    }
}

impl Drop for PagePort {
    fn drop(&mut self) {
        if let Self::Own(port, weights) = self {
            weights.borrow().iter().for_each(|buffer| port.destroy(buffer));
        }
    }
}

/// A buffer of a device of the same kind.
#[derive(Clone, PartialEq)]
pub(super) enum PageBuffer {
    Page(JsBuffer),
    Own(WgpuBuffer),
}

impl TryFrom<&PageBuffer> for JsBuffer {
    type Error = Error;

    fn try_from(buffer: &PageBuffer) -> Result<Self, Error> {
        match buffer {
            PageBuffer::Page(buffer) => Ok(buffer.clone()),
            PageBuffer::Own(_) => Err(foreign()),
        }
    }
}

impl TryFrom<&PageBuffer> for WgpuBuffer {
    type Error = Error;

    fn try_from(buffer: &PageBuffer) -> Result<Self, Error> {
        match buffer {
            PageBuffer::Own(buffer) => Ok(buffer.clone()),
            PageBuffer::Page(_) => Err(foreign()),
        }
    }
}

fn foreign() -> Error {
    Error::Misuse { what: "a buffer of another device".into() }
}

/// Does something on the device that there is.
macro_rules! on_either {
    ($port:expr, $inner:ident => $work:expr) => {
        match $port {
            PagePort::Page($inner) => $work,
            PagePort::Own($inner, _) => $work,
        }
    };
}

impl Port for PagePort {
    type Buffer = PageBuffer;

    fn limits(&self) -> DeviceLimits {
        on_either!(self, port => port.limits())
    }

    fn size(&self, buffer: &PageBuffer) -> u64 {
        on_either!(self, port => buffer.try_into().map_or(0, |buffer| port.size(&buffer)))
    }

    fn usable(&self, buffer: &PageBuffer) -> bool {
        on_either!(self, port => buffer.try_into().is_ok_and(|buffer| port.usable(&buffer)))
    }

    fn create(&self, label: &'static str, bytes: u64, usage: Usage) -> Result<PageBuffer, Error> {
        match self {
            Self::Page(port) => port.create(label, bytes, usage).map(PageBuffer::Page),
            Self::Own(port, _) => port.create(label, bytes, usage).map(PageBuffer::Own),
        }
    }

    fn destroy(&self, buffer: &PageBuffer) {
        on_either!(self, port => buffer.try_into().into_iter().for_each(|buffer| port.destroy(&buffer)));
    }

    fn write(&self, buffer: &PageBuffer, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        on_either!(self, port => port.write(&buffer.try_into()?, offset, bytes))
    }

    fn submit(&self, commands: &[Command<PageBuffer>]) -> Result<(), Error> {
        on_either!(self, port => port.submit(&of_one_kind(commands)?))
    }

    async fn read(&self, buffer: &PageBuffer, offset: u64, bytes: u64) -> Result<Vec<u8>, Error> {
        on_either!(self, port => port.read(&buffer.try_into()?, offset, bytes).await)
    }

    async fn settle(&self) -> Result<(), Error> {
        on_either!(self, port => port.settle().await)
    }
}

fn of_one_kind<B: for<'a> TryFrom<&'a PageBuffer, Error = Error>>(
    commands: &[Command<PageBuffer>],
) -> Result<Vec<Command<B>>, Error> {
    let binding = |binding: &Binding<PageBuffer>| {
        let Binding { ref buffer, offset, bytes } = *binding;
        Ok::<_, Error>(Binding { buffer: buffer.try_into()?, offset, bytes })
    };
    let command = |command: &Command<PageBuffer>| {
        Ok(match command {
            Command::Clear(range) => Command::Clear(binding(range)?),
            Command::Dispatch { kernel, params, slots, workgroups } => Command::Dispatch {
                kernel: *kernel,
                params: binding(params)?,
                slots: slots.iter().map(|(slot, bound)| Ok((*slot, binding(bound)?))).collect::<Result<_, Error>>()?,
                workgroups: *workgroups,
            },
        })
    };
    commands.iter().map(command).collect()
}
