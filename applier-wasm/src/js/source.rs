//! A JS object as the source of a patch.

use crate::error::Error;
use crate::js::error::message_of;
use crate::source::Source;
use core::ops::Range;
use js_sys::{Promise, Uint8Array};
use pulse_format::{Error as PatchError, Part};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

#[wasm_bindgen]
extern "C" {
    /// What the wrapper makes of everything that a patch can come from.
    pub type JsSource;

    /// Bytes of the patch, fewer only where it ends.
    #[wasm_bindgen(method, catch)]
    fn read(this: &JsSource, offset: f64, length: f64) -> Result<Promise, JsValue>;

    /// Starts and ends of what will be read, in order.
    #[wasm_bindgen(method, catch)]
    fn expect(this: &JsSource, ranges: Vec<f64>) -> Result<(), JsValue>;

    /// Bytes of the whole patch, where that is known by now.
    #[wasm_bindgen(method, getter, js_name = "length")]
    fn bytes(this: &JsSource) -> Option<f64>;
}

impl Source for JsSource {
    async fn read(&mut self, offset: u64, length: usize) -> Result<Vec<u8>, Error> {
        let failed = |thrown: JsValue| Error::Source { message: message_of(&thrown) };
        let promise = JsSource::read(self, offset as f64, length as f64).map_err(failed)?;
        let bytes: Uint8Array = JsFuture::from(promise).await.map_err(failed)?.into();
        match bytes.length() as usize {
            found if found < length => {
                Err(PatchError::Truncated { part: Part::Payload, missing: (length - found) as u64 }.into())
            }
            found if found > length => {
                Err(Error::Source { message: "it gave more bytes than it was asked for".into() })
            }
            _ => Ok(bytes.to_vec()),
        }
    }

    fn expect(&mut self, ranges: &[Range<u64>]) {
        let ranges = ranges.iter().flat_map(|range| [range.start as f64, range.end as f64]).collect();
        // It is a hint: what comes of it shows in the reads.
        let _ = JsSource::expect(self, ranges);
    }

    fn length(&self) -> Option<u64> {
        self.bytes().map(crate::js::object::integer)
    }
}
