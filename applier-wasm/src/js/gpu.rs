//! Sessions over a GPU, for JS: over a page's own device, and, with the feature, over one that wgpu opens.

use crate::error::Error;
use crate::gpu::{Applied, Element, JsPort, Layout, Options, Session, canary, half};
use crate::js::error::to_js;
use crate::js::header::limits_of;
use crate::js::hooks::JsHooks;
use crate::js::object::{count, integer, object, step, tensor_of};
use crate::js::source::JsSource;
use wasm_bindgen::prelude::*;

/// What a session does, whichever port it has.
macro_rules! session {
    ($raw:ident) => {
        #[wasm_bindgen]
        impl $raw {
            pub async fn apply(&mut self, source: JsSource, hooks: JsHooks) -> Result<JsValue, JsValue> {
                let applied = self.session.apply(source, &hooks).await;
                applied.and_then(|applied| describe(&applied)).map_err(|error| to_js(&error))
            }

            pub async fn undo(&mut self, hooks: JsHooks) -> Result<f64, JsValue> {
                self.session.undo(&hooks).await.map(|step| step as f64).map_err(|error| to_js(&error))
            }

            pub async fn fingerprint(&mut self, seed: u64) -> Result<String, JsValue> {
                let fingerprint = self.session.fingerprint(seed).await.map_err(|error| to_js(&error))?;
                Ok(fingerprint.to_string())
            }

            #[wasm_bindgen(getter)]
            pub fn step(&self) -> Option<f64> {
                self.session.step().map(|step| step as f64)
            }

            #[wasm_bindgen(getter)]
            pub fn poisoned(&self) -> bool {
                self.session.poisoned().is_some()
            }
        }
    };
}

#[cfg(feature = "wgpu")]
pub(super) use session;

/// See `GpuSession` of the package.
#[wasm_bindgen]
pub struct RawGpuSession {
    session: Session<JsPort>,
}

session!(RawGpuSession);

#[wasm_bindgen]
impl RawGpuSession {
    /// Adopts a `GPUDevice`, and makes it compute something first.
    pub async fn open(
        device: JsValue,
        step: Option<f64>,
        limits: Vec<f64>,
        scratch: Option<f64>,
    ) -> Result<Self, JsValue> {
        let port = JsPort::adopt(device).map_err(|error| to_js(&error))?;
        canary::check(&port).await.map_err(|error| to_js(&error))?;
        Ok(Self { session: Session::new(port, options_of(step, &limits, scratch)) })
    }

    #[expect(clippy::too_many_arguments, reason = "the wrapper passes them by name")]
    pub fn bind(
        &mut self,
        name: &str,
        dtype: &str,
        shape: Vec<f64>,
        buffer: JsValue,
        element: &str,
        offset: f64,
        transposed: bool,
        stride: Option<f64>,
        cells: Vec<u32>,
        bits: Vec<u16>,
    ) -> Result<(), JsValue> {
        let bind = || {
            let tensor = tensor_of(name, dtype, &shape)?;
            let layout = layout_of(name, element, offset, transposed, stride)?;
            let buffer = self.session.port().buffer(buffer)?;
            if layout.element != Element::F16 {
                return self.session.bind(tensor, &buffer, layout);
            }
            let exceptions: Vec<(u32, u16)> = cells.into_iter().zip(bits).collect();
            self.session.bind_f16(tensor, &buffer, layout, &exceptions)
        };
        bind().map_err(|error| to_js(&error))
    }
}

/// BF16 cells as f16: `{ bytes, cells, bits }`, the last two for those that f16 does not hold exactly.
#[wasm_bindgen(js_name = "rawConvertF16")]
#[expect(unreachable_pub, reason = "wasm-bindgen exports public functions only")]
pub fn convert_f16(bytes: &[u8]) -> JsValue {
    let (halves, exceptions) = half::convert(bytes);
    let (cells, bits): (Vec<u32>, Vec<u16>) = exceptions.into_iter().unzip();
    object([
        ("bytes", js_sys::Uint8Array::from(halves.as_slice()).into()),
        ("cells", js_sys::Uint32Array::from(cells.as_slice()).into()),
        ("bits", js_sys::Uint16Array::from(bits.as_slice()).into()),
    ])
}

pub(super) fn options_of(step: Option<f64>, limits: &[f64], scratch: Option<f64>) -> Options {
    let options = Options { step: step.map(integer), limits: limits_of(limits), ..Options::default() };
    Options { scratch_bytes: scratch.map_or(options.scratch_bytes, integer), ..options }
}

fn layout_of(name: &str, element: &str, offset: f64, transposed: bool, stride: Option<f64>) -> Result<Layout, Error> {
    let element = match element {
        "packed" => Element::Packed,
        "f32" => Element::F32,
        "f16" => Element::F16,
        other => {
            return Err(Error::Binding { tensor: name.into(), problem: format!("there is no layout {other}") });
        }
    };
    Ok(Layout { element, offset: integer(offset), transposed, stride: stride.map(integer) })
}

pub(super) fn describe(applied: &Applied) -> Result<JsValue, Error> {
    let counts = &applied.counts;
    Ok(object([
        ("baseStep", step(applied.base_step)?),
        ("targetStep", step(applied.target_step)?),
        ("changes", count(applied.changes)),
        ("cells", count(applied.cells)),
        ("patchBytes", count(applied.patch_bytes)),
        ("fingerprint", applied.fingerprint.to_string().into()),
        ("uploadedBytes", count(counts.uploaded_bytes)),
        ("readBytes", count(counts.read_bytes)),
        ("submits", count(counts.submits)),
        ("dispatches", count(counts.dispatches)),
        ("scratchBytes", count(counts.scratch_bytes)),
    ]))
}
