//! The session over memory, for JS.

use crate::cpu::Session;
use crate::js::error::to_js;
use crate::js::memory::JsMemory;
use crate::js::object::tensor_of;
use crate::js::session::{options_of, session};
use js_sys::Uint8Array;
use wasm_bindgen::prelude::*;

/// See `CpuSession` of the package.
#[wasm_bindgen]
pub struct RawCpuSession {
    session: Session<JsMemory>,
}

session!(RawCpuSession);

#[wasm_bindgen]
impl RawCpuSession {
    #[wasm_bindgen(constructor)]
    pub fn new(step: Option<f64>, limits: Vec<f64>, undo: Option<f64>) -> Self {
        Self { session: Session::new(options_of(step, &limits, None, undo)) }
    }

    pub fn bind(&mut self, name: &str, dtype: &str, shape: Vec<f64>, memory: Uint8Array) -> Result<(), JsValue> {
        let tensor = tensor_of(name, dtype, &shape).map_err(|error| to_js(&error))?;
        self.session.bind(tensor, JsMemory(memory), 0).map_err(|error| to_js(&error))
    }

    pub fn fingerprint(&self, seed: u64) -> Result<String, JsValue> {
        let fingerprint = self.session.fingerprint(seed).map_err(|error| to_js(&error))?;
        Ok(fingerprint.to_string())
    }
}
