//! Sessions over a device that wgpu opens for us, for JS: how one is opened, and how weights get there.

use crate::error::Error;
use crate::gpu::wgpu_port::{OpenOptions, WgpuPort};
use crate::gpu::{Layout, Port, Session, port::Usage};
use crate::js::error::to_js;
use crate::js::gpu::RawGpuSession;
use crate::js::object::tensor_of;
use crate::js::page_port::PagePort;
use crate::js::session::options_of;
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
impl RawGpuSession {
    /// Opens a device, and makes it compute something.
    #[wasm_bindgen(js_name = "openOwn")]
    pub async fn open_own(
        low_power: bool,
        step: Option<f64>,
        limits: Vec<f64>,
        scratch: Option<f64>,
        undo: Option<f64>,
    ) -> Result<Self, JsValue> {
        let options = OpenOptions { low_power, ..OpenOptions::default() };
        let port = WgpuPort::open(options).await.map_err(|error| to_js(&error))?;
        Ok(Self { session: Session::new(PagePort::own(port), options_of(step, &limits, scratch, undo)) })
    }

    /// Puts a tensor's cells into a buffer of its own, which lives as long as the session, and binds it; gives the `GPUBuffer`.
    pub fn load(&mut self, name: &str, dtype: &str, shape: Vec<f64>, bytes: &[u8]) -> Result<JsValue, JsValue> {
        let mut load = || {
            let tensor = tensor_of(name, dtype, &shape)?;
            let port = self.session.port();
            let mut padded = bytes.to_vec();
            padded.resize(bytes.len().next_multiple_of(4).max(4), 0);
            let buffer = port.create("weights", padded.len() as u64, Usage::Storage)?;
            let bound =
                port.write(&buffer, 0, &padded).and_then(|()| self.session.bind(tensor, &buffer, Layout::default()));
            let port = self.session.port();
            if let Err(error) = bound {
                port.destroy(&buffer);
                return Err(error);
            }
            port.adopt_weights(&buffer)
        };
        load().map_err(|error: Error| to_js(&error))
    }

    /// The `GPUDevice` that was opened.
    #[wasm_bindgen(getter)]
    pub fn device(&self) -> JsValue {
        self.session.port().own_device()
    }
}
