//! A header as a plain object.

use crate::error::Error;
use crate::js::error::to_js;
use crate::js::object::{count, integer, object, step, step_or_undefined};
use crate::js::source::JsSource;
use crate::patch::Patch;
use js_sys::Array;
use pulse_format::{Header, Limits, Segment, Tensor};
use wasm_bindgen::prelude::*;

/// See `readHeader` of the package.
#[wasm_bindgen(js_name = "rawReadHeader")]
#[expect(unreachable_pub, reason = "wasm-bindgen exports public functions only")]
pub async fn read_header(source: JsSource, limits: Vec<f64>) -> Result<JsValue, JsValue> {
    let patch = Patch::open(source, &limits_of(&limits)).await;
    patch.and_then(|patch| describe(patch.header())).map_err(|error| to_js(&error))
}

/// The default limits, with those that the wrapper gives, in its order; what is not a number is left as it is.
pub(super) fn limits_of(given: &[f64]) -> Limits {
    let mut limits = Limits::default();
    let fields = [
        &mut limits.header_bytes,
        &mut limits.tensors,
        &mut limits.models,
        &mut limits.segments,
        &mut limits.segment_bytes,
    ];
    for (field, given) in fields.into_iter().zip(given).filter(|(_, given)| !given.is_nan()) {
        *field = integer(*given);
    }
    limits
}

fn describe(header: &Header) -> Result<JsValue, Error> {
    Ok(object([
        ("runId", header.run_id.as_str().into()),
        ("baseStep", step_or_undefined(header.base_step)?),
        ("targetStep", step(header.target_step.get())?),
        ("seed", header.seed.into()),
        ("patchBytes", count(header.patch_bytes().get())),
        ("cells", count(header.cells().get())),
        ("changes", count(header.changes().get())),
        ("baseFingerprint", header.base_fingerprint().to_string().into()),
        ("targetFingerprint", header.target_fingerprint().to_string().into()),
        ("tensors", header.tensors.iter().map(tensor).collect::<Array>().into()),
        (
            "segments",
            (0..).zip(&header.segments).map(|(index, one)| segment(header, index, one)).collect::<Array>().into(),
        ),
    ]))
}

fn tensor(tensor: &Tensor) -> JsValue {
    let shape: Array = tensor.shape.iter().map(|dimension| count(*dimension)).collect();
    object([("name", tensor.name.as_str().into()), ("dtype", tensor.dtype.name().into()), ("shape", shape.into())])
}

fn segment(header: &Header, index: usize, segment: &Segment) -> JsValue {
    let tensors: Array = header.pieces(index).iter().map(|piece| count(piece.tensor as u64)).collect();
    object([
        ("profile", segment.profile.name().into()),
        ("cells", count(segment.cells.into())),
        ("changes", count(segment.changes.into())),
        ("offset", count(segment.offset.get())),
        ("bytes", count(segment.bytes.into())),
        ("tensors", tensors.into()),
    ])
}
