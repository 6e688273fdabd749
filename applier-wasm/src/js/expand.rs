//! The entropy decoder alone, for the bench that asks how fast wasm expands symbols.

use crate::error::Error;
use crate::inflate::Zstd;
use crate::js::error::to_js;
use pulse_format::contextual::{ContextualChanges, ContextualDecoder};
use pulse_format::{Header, Limits, Profile};
use wasm_bindgen::prelude::*;

/// Decodes every contextual segment of a patch `rounds` times, drops the changes, and says how many there were in all.
#[wasm_bindgen(js_name = "rawExpand")]
#[expect(unreachable_pub, reason = "wasm-bindgen exports public functions only")]
pub fn expand(patch: &[u8], rounds: u32) -> Result<f64, JsValue> {
    expand_all(patch, rounds).map(|changes| changes as f64).map_err(|error| to_js(&error))
}

fn expand_all(patch: &[u8], rounds: u32) -> Result<usize, Error> {
    let header = Header::read(patch, &Zstd, &Limits::default())?;
    let (mut decoder, mut changes) = (ContextualDecoder::default(), ContextualChanges::default());
    let mut expanded = 0;
    for (index, segment) in (0..rounds).flat_map(|_| (0..).zip(&header.segments)) {
        if let Profile::Contextual { .. } = segment.profile {
            let range = segment.byte_range();
            let payload = patch.get(range.start as usize..range.end as usize).unwrap_or_default();
            decoder.decode(&header, index, payload, &Zstd, &mut changes)?;
            expanded += changes.len();
        }
    }
    Ok(expanded)
}
