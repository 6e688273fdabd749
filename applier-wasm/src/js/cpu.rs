//! The session over memory, for JS.

use crate::cpu::{Applied, Session};
use crate::error::Error;
use crate::js::error::to_js;
use crate::js::header::limits_of;
use crate::js::hooks::JsHooks;
use crate::js::memory::JsMemory;
use crate::js::object::{count, integer, object, step, tensor_of};
use crate::js::source::JsSource;
use js_sys::Uint8Array;
use pulse_format::Step;
use wasm_bindgen::prelude::*;

/// See `CpuSession` of the package.
#[wasm_bindgen]
pub struct RawCpuSession {
    session: Session<JsMemory>,
}

#[wasm_bindgen]
impl RawCpuSession {
    #[wasm_bindgen(constructor)]
    pub fn new(step: Option<f64>) -> Self {
        Self { session: Session::new(step.map(|step| Step(integer(step)))) }
    }

    pub fn bind(&mut self, name: &str, dtype: &str, shape: Vec<f64>, memory: Uint8Array) -> Result<(), JsValue> {
        let tensor = tensor_of(name, dtype, &shape).map_err(|error| to_js(&error))?;
        self.session.bind(tensor, JsMemory(memory), 0).map_err(|error| to_js(&error))
    }

    pub async fn apply(&mut self, source: JsSource, limits: Vec<f64>, hooks: JsHooks) -> Result<JsValue, JsValue> {
        let applied = self.session.apply(source, &limits_of(&limits), &hooks).await;
        applied.and_then(|applied| describe(&applied)).map_err(|error| to_js(&error))
    }

    pub fn fingerprint(&self, seed: u64) -> Result<String, JsValue> {
        let fingerprint = self.session.fingerprint(seed).map_err(|error| to_js(&error))?;
        Ok(fingerprint.to_string())
    }

    #[wasm_bindgen(getter)]
    pub fn step(&self) -> Option<f64> {
        self.session.step().map(|step| step.get() as f64)
    }

    #[wasm_bindgen(getter)]
    pub fn poisoned(&self) -> bool {
        self.session.poisoned().is_some()
    }
}

fn describe(applied: &Applied) -> Result<JsValue, Error> {
    Ok(object([
        ("baseStep", step(applied.base_step.get())?),
        ("targetStep", step(applied.target_step.get())?),
        ("changes", count(applied.changes)),
        ("cells", count(applied.cells)),
        ("patchBytes", count(applied.patch_bytes)),
        ("fingerprint", applied.fingerprint.to_string().into()),
    ]))
}
