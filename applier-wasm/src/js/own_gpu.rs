//! Sessions over a device that wgpu opens for us, for JS.

use crate::gpu::wgpu_port::{OpenOptions, WgpuBuffer, WgpuPort};
use crate::gpu::{Layout, Port, Session, port::Usage};
use crate::js::error::to_js;
use crate::js::gpu::gpu_session;
use crate::js::object::tensor_of;
use crate::js::session::options_of;
use wasm_bindgen::prelude::*;

/// See `OwnGpuSession` of the package.
#[wasm_bindgen]
pub struct RawOwnGpuSession {
    session: Session<WgpuPort>,
    buffers: Vec<WgpuBuffer>,
}

gpu_session!(RawOwnGpuSession);

#[wasm_bindgen]
impl RawOwnGpuSession {
    /// Opens a device, and makes it compute something.
    pub async fn open(
        low_power: bool,
        step: Option<f64>,
        limits: Vec<f64>,
        scratch: Option<f64>,
        undo: Option<f64>,
    ) -> Result<Self, JsValue> {
        let options = OpenOptions { low_power, ..OpenOptions::default() };
        let port = WgpuPort::open(options).await.map_err(|error| to_js(&error))?;
        Ok(Self { session: Session::new(port, options_of(step, &limits, scratch, undo)), buffers: Vec::new() })
    }

    /// Puts a tensor's cells into a buffer of its own and binds it; gives the `GPUBuffer`.
    pub fn load(&mut self, name: &str, dtype: &str, shape: Vec<f64>, bytes: &[u8]) -> Result<JsValue, JsValue> {
        let mut load = || {
            let tensor = tensor_of(name, dtype, &shape)?;
            let port = self.session.port();
            let mut padded = bytes.to_vec();
            padded.resize(bytes.len().next_multiple_of(4).max(4), 0);
            let buffer = port.create("weights", padded.len() as u64, Usage::Storage)?;
            let bound =
                port.write(&buffer, 0, &padded).and_then(|()| self.session.bind(tensor, &buffer, Layout::default()));
            if let Err(error) = bound {
                self.session.port().destroy(&buffer);
                return Err(error);
            }
            let handle = buffer.as_js().unwrap_or_default();
            self.buffers.push(buffer);
            Ok(handle)
        };
        load().map_err(|error| to_js(&error))
    }

    /// The `GPUDevice`.
    #[wasm_bindgen(getter)]
    pub fn device(&self) -> JsValue {
        self.session.port().device_as_js().unwrap_or_default()
    }
}

impl Drop for RawOwnGpuSession {
    fn drop(&mut self) {
        self.buffers.iter().for_each(|buffer| self.session.port().destroy(buffer));
    }
}
