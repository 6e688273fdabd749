//! Sessions over a GPU, for JS. `own_gpu.rs` has what only those have whose device wgpu opened.

use crate::error::Error;
use crate::gpu::{Element, JsPort, Layout, Session, canary, half};
use crate::js::error::to_js;
use crate::js::object::{integer, object, tensor_of};
#[cfg(feature = "wgpu")]
use crate::js::page_port::PagePort;
use crate::js::session::{options_of, session};
#[cfg(not(feature = "wgpu"))]
use JsPort as PagePort;
use wasm_bindgen::prelude::*;

/// See `GpuSession` and `OwnGpuSession` of the package: one class, so that the module has its methods once.
#[wasm_bindgen]
pub struct RawGpuSession {
    pub(super) session: Session<PagePort>,
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
        undo: Option<f64>,
    ) -> Result<Self, JsValue> {
        let port = JsPort::adopt(device).map_err(|error| to_js(&error))?;
        canary::check(&port).await.map_err(|error| to_js(&error))?;
        Ok(Self { session: Session::new(port.into(), options_of(step, &limits, scratch, undo)) })
    }

    pub async fn fingerprint(&mut self, seed: u64) -> Result<String, JsValue> {
        let fingerprint = self.session.fingerprint(seed).await;
        fingerprint.map(|found| found.to_string()).map_err(|error| to_js(&error))
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
