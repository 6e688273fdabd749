//! Errors as JS errors with a `code`.

use crate::error::Error;
use crate::js::object::set;
use wasm_bindgen::JsValue;

/// A JS `Error` with our message and `code`.
pub(super) fn to_js(error: &Error) -> JsValue {
    let thrown = js_sys::Error::new(&error.to_string());
    set(&thrown, "code", &error.code().into());
    thrown.into()
}

/// What a caller's function threw, in words.
pub(super) fn message_of(thrown: &JsValue) -> String {
    let message = js_sys::Reflect::get(thrown, &"message".into()).ok().and_then(|message| message.as_string());
    message.or_else(|| thrown.as_string()).unwrap_or_else(|| "no message".into())
}
