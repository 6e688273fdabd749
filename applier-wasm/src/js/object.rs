//! Plain JS objects, and numbers that both sides can hold.

use crate::error::Error;
use pulse_format::{Dtype, Step, Tensor};
use wasm_bindgen::JsValue;

/// The largest integer up to which every one is a JS number.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// Sets a property of an object that is ours.
pub(super) fn set(object: &JsValue, name: &str, value: &JsValue) {
    // Fails only for proxies and frozen objects.
    let _ = js_sys::Reflect::set(object, &name.into(), value);
}

/// A plain object.
pub(super) fn object<const N: usize>(properties: [(&str, JsValue); N]) -> JsValue {
    let object = js_sys::Object::new().into();
    properties.iter().for_each(|(name, value)| set(&object, name, value));
    object
}

/// A count: of cells or bytes that were there, hence far below 2^53.
pub(super) fn count(number: u64) -> JsValue {
    JsValue::from_f64(number as f64)
}

/// A step, which a patch may set to anything.
pub(super) fn step(number: u64) -> Result<JsValue, Error> {
    if number > MAX_SAFE_INTEGER {
        let (what, allowed) = ("the step", MAX_SAFE_INTEGER);
        return Err(pulse_format::Error::Limit { what, found: number, allowed }.into());
    }
    Ok(count(number))
}

/// The same, or nothing.
pub(super) fn step_or_undefined(number: Option<Step>) -> Result<JsValue, Error> {
    number.map_or(Ok(JsValue::UNDEFINED), |number| step(number.get()))
}

/// An integer that the wrapper has checked to be one, not negative and safe; whatever else it is becomes one.
pub(super) fn integer(number: f64) -> u64 {
    number as u64
}

/// A tensor as the wrapper describes it.
pub(super) fn tensor_of(name: &str, dtype: &str, shape: &[f64]) -> Result<Tensor, Error> {
    let unknown = || Error::Binding { tensor: name.into(), problem: format!("there is no dtype {dtype}") };
    let dtype = Dtype::from_name(dtype).ok_or_else(unknown)?;
    Ok(Tensor { name: name.into(), dtype, shape: shape.iter().copied().map(integer).collect() })
}
