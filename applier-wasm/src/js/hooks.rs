//! A JS object as the caller's hooks.

use crate::error::Error;
use crate::hooks::{Hooks, Intent, Progress};
use crate::js::error::message_of;
use crate::js::object::{count, object};
use js_sys::Promise;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

#[wasm_bindgen]
extern "C" {
    /// What the wrapper makes of the caller's options; it lets none of its functions throw but the two that may fail.
    pub type JsHooks;

    #[wasm_bindgen(method)]
    fn cancelled(this: &JsHooks) -> bool;

    #[wasm_bindgen(method)]
    fn progress(this: &JsHooks, phase: &str, done: f64, total: f64);

    #[wasm_bindgen(method)]
    fn verified(this: &JsHooks, intent: &JsValue);

    #[wasm_bindgen(method)]
    fn pause(this: &JsHooks) -> Promise;

    #[wasm_bindgen(method)]
    fn quiesce(this: &JsHooks) -> Promise;

    #[wasm_bindgen(method)]
    fn invalidate(this: &JsHooks) -> Promise;
}

impl Hooks for JsHooks {
    fn cancelled(&self) -> bool {
        JsHooks::cancelled(self)
    }

    fn progress(&self, progress: Progress) {
        JsHooks::progress(self, progress.phase.name(), progress.done as f64, progress.total as f64);
    }

    fn verified(&self, intent: Intent) {
        let Intent { base_step, target_step, changes, cells, patch_bytes, undo_bytes } = intent;
        let intent = object([
            ("baseStep", base_step.map_or(JsValue::UNDEFINED, |step| count(step.get()))),
            ("targetStep", count(target_step.get())),
            ("changes", count(changes)),
            ("cells", count(cells)),
            ("patchBytes", count(patch_bytes)),
            ("undoBytes", undo_bytes.map_or(JsValue::UNDEFINED, count)),
        ]);
        JsHooks::verified(self, &intent);
    }

    async fn pause(&self) {
        let _ = JsFuture::from(JsHooks::pause(self)).await;
    }

    async fn quiesce(&self) -> Result<(), Error> {
        call("quiesce", JsHooks::quiesce(self)).await
    }

    async fn invalidate(&self) -> Result<(), Error> {
        call("invalidate", JsHooks::invalidate(self)).await
    }
}

async fn call(hook: &'static str, promise: Promise) -> Result<(), Error> {
    let result = JsFuture::from(promise).await;
    result.map(|_| ()).map_err(|thrown| Error::Hook { hook, message: message_of(&thrown) })
}
