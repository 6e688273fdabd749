//! What every session does, for JS.

use crate::error::Error;
use crate::gpu::Counts;
use crate::js::header::limits_of;
use crate::js::object::{count, integer, object, set, step, step_or_undefined};
use crate::options::Options;
use crate::session::Applied;
use pulse_format::Step;
use wasm_bindgen::JsValue;

/// The calls of a class whose field `session` is a [`crate::Session`].
macro_rules! session {
    ($raw:ident) => {
        #[wasm_bindgen]
        impl $raw {
            pub async fn apply(
                &mut self,
                source: $crate::js::source::JsSource,
                hooks: $crate::js::hooks::JsHooks,
            ) -> Result<JsValue, JsValue> {
                let applied = self.session.apply(source, &hooks).await;
                let described = applied.and_then(|applied| $crate::js::session::describe(&applied));
                described.map_err(|error| $crate::js::error::to_js(&error))
            }

            pub async fn undo(&mut self, hooks: $crate::js::hooks::JsHooks) -> Result<f64, JsValue> {
                let step = self.session.undo(&hooks).await;
                step.map(|step| step.get() as f64).map_err(|error| $crate::js::error::to_js(&error))
            }

            #[wasm_bindgen(getter)]
            pub fn step(&self) -> Option<f64> {
                self.session.step().map(|step| step.get() as f64)
            }

            /// The step that `undo` would lead to.
            #[wasm_bindgen(getter, js_name = "undoStep")]
            pub fn undo_step(&self) -> Option<f64> {
                self.session.undo_step().map(|step| step.get() as f64)
            }

            #[wasm_bindgen(getter)]
            pub fn poisoned(&self) -> bool {
                self.session.poisoned().is_some()
            }
        }
    };
}
pub(super) use session;

/// Options as the wrapper gives them; what is left out is the default.
pub(super) fn options_of(step: Option<f64>, limits: &[f64], scratch: Option<f64>, undo: Option<f64>) -> Options {
    let default = Options::default();
    Options {
        step: step.map(|step| Step(integer(step))),
        limits: limits_of(limits),
        scratch_bytes: scratch.map_or(default.scratch_bytes, integer),
        undo_bytes: undo.map_or(default.undo_bytes, integer),
    }
}

/// What an apply did, as an object.
pub(super) fn describe(applied: &Applied) -> Result<JsValue, Error> {
    let described = object([
        ("baseStep", step_or_undefined(applied.base_step)?),
        ("targetStep", step(applied.target_step.get())?),
        ("changes", count(applied.changes)),
        ("cells", count(applied.cells)),
        ("patchBytes", count(applied.patch_bytes)),
        ("fingerprint", applied.fingerprint.to_string().into()),
        ("undoBytes", applied.undo_bytes.map_or(JsValue::UNDEFINED, count)),
    ]);
    if let Some(Counts { uploaded_bytes, read_bytes, submits, dispatches, scratch_bytes, .. }) = applied.device {
        let counts = [
            ("uploadedBytes", uploaded_bytes),
            ("readBytes", read_bytes),
            ("submits", submits),
            ("dispatches", dispatches),
            ("scratchBytes", scratch_bytes),
        ];
        counts.into_iter().for_each(|(name, number)| set(&described, name, &count(number)));
    }
    Ok(described)
}
