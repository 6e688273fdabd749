//! Tensors in buffers, laid out as engines do, on any port.

use super::adapter;
use super::cells::{Pair, Random, TestTensor};
use pulse_applier_wasm::Options;
use pulse_applier_wasm::gpu::port::Usage;
use pulse_applier_wasm::gpu::{DeviceLimits, Element, Layout, Port, Session, TwinPort, WgpuPort, half};
use pulse_format::Tensor;
use std::cell::RefCell;

/// A port that tests can open and fill.
pub(crate) trait TestPort: Port + Sized {
    fn open(limits: DeviceLimits) -> Self;

    /// A buffer as an engine would have made it.
    fn filled(&self, bytes: &[u8]) -> Self::Buffer {
        let buffer = self.create("weights", bytes.len() as u64, Usage::Storage).unwrap();
        self.write(&buffer, 0, bytes).unwrap();
        buffer
    }

    fn content(&self, buffer: &Self::Buffer) -> Vec<u8> {
        pollster::block_on(self.read(buffer, 0, self.size(buffer))).unwrap()
    }
}

impl TestPort for TwinPort {
    fn open(limits: DeviceLimits) -> Self {
        Self::new(limits)
    }
}

thread_local! {
    /// A test's devices live as long as it does.
    static DEVICES: RefCell<Vec<(DeviceLimits, &'static WgpuPort)>> = const { RefCell::new(Vec::new()) };
}

impl TestPort for &'static WgpuPort {
    fn open(limits: DeviceLimits) -> Self {
        let found = DEVICES.with_borrow(|devices| devices.iter().find(|(with, _)| *with == limits).copied());
        if let Some((_, port)) = found {
            return port;
        }
        let port = adapter::open().expect("tests that are to be skipped open no device").with_limits(limits);
        let port: &WgpuPort = Box::leak(Box::new(port));
        DEVICES.with_borrow_mut(|devices| devices.push((limits, port)));
        port
    }
}

/// Makes tests of functions that are generic over the port: one on the twins, one on the GPU.
macro_rules! on_every_port {
    ($($test:ident)+) => {
        mod twin {
            $(#[test] fn $test() { super::$test::<pulse_applier_wasm::gpu::TwinPort>(); })+
        }
        mod wgpu {
            $(#[test] fn $test() {
                if crate::support::adapter::open().is_some() {
                    super::$test::<&'static pulse_applier_wasm::gpu::WgpuPort>();
                }
            })+
        }
    };
}
pub(crate) use on_every_port;

/// Where element `row`, `column` of a tensor lies, in elements from its start.
fn element(layout: &Layout, rows: usize, columns: usize, row: usize, column: usize) -> usize {
    let across = if layout.transposed { rows } else { columns };
    let stride = layout.stride.map_or(across, |stride| stride as usize);
    if layout.transposed { column * stride + row } else { row * stride + column }
}

/// A buffer with `cells` laid out in it, and noise around them.
pub(crate) fn stored(tensor: &TestTensor, cells: &[u8], layout: &Layout) -> Vec<u8> {
    let width = tensor.dtype.cell_bytes();
    let count = cells.len() / width;
    let columns = tensor.shape.last().map_or(1, |columns| *columns as usize).max(1);
    let columns = if tensor.dtype.element_bits() == 8 * width as u64 { columns } else { count.max(1) };
    let rows = count / columns;
    let bytes = match layout.element {
        Element::Packed => width,
        Element::F32 => 4,
        Element::F16 => 2,
    };
    let last = if count == 0 { 0 } else { element(layout, rows, columns, rows - 1, columns - 1) + 1 };
    let length = (layout.offset as usize + last * bytes + 24).next_multiple_of(4);
    let mut buffer = Random::new(5).bytes(length);
    for (index, cell) in cells.chunks(width).enumerate() {
        let start = layout.offset as usize + bytes * element(layout, rows, columns, index / columns, index % columns);
        let to = &mut buffer[start..start + bytes];
        match layout.element {
            Element::Packed => to.copy_from_slice(cell),
            Element::F32 => to.copy_from_slice(&[0, 0, cell[0], cell[1]]),
            Element::F16 => to.copy_from_slice(&half::convert(cell).0),
        }
    }
    buffer
}

/// The pair's base in buffers of a new session.
pub(crate) struct Bound<P: TestPort> {
    pub(crate) session: Session<P>,
    buffers: Vec<(TestTensor, Layout, P::Buffer)>,
}

impl<P: TestPort> Bound<P> {
    pub(crate) fn new(pair: &Pair, layout: &Layout, port: P, options: Options) -> Self {
        let mut session = Session::new(port, options);
        let mut buffers = Vec::new();
        for tensor in &pair.tensors {
            let layout = if fits(tensor, layout) { *layout } else { Layout::default() };
            let buffer = session.port().filled(&stored(tensor, &tensor.base, &layout));
            match layout.element {
                Element::F16 => {
                    session.bind_f16(entry(tensor), &buffer, layout, &half::convert(&tensor.base).1).unwrap();
                }
                _ => session.bind(entry(tensor), &buffer, layout).unwrap(),
            }
            buffers.push((tensor.clone(), layout, buffer));
        }
        Self { session, buffers }
    }

    /// Every byte of every buffer is as if the cells had been stored there in the first place, and so are the cells that f16 lacks.
    pub(crate) fn holds<'a>(&'a self, cells: impl Fn(&'a TestTensor) -> &'a [u8]) -> bool {
        let port = self.session.port();
        self.buffers.iter().all(|(tensor, layout, buffer)| {
            let exceptions = |name: &str| pollster::block_on(self.session.exceptions(name)).unwrap();
            port.content(buffer) == stored(tensor, cells(tensor), layout)
                && (layout.element != Element::F16 || exceptions(&tensor.name) == half::convert(cells(tensor)).1)
        })
    }

    pub(crate) fn holds_base(&self) -> bool {
        self.holds(|tensor| &tensor.base)
    }

    pub(crate) fn holds_target(&self) -> bool {
        self.holds(|tensor| &tensor.target)
    }

    /// Flips a bit of a buffer.
    pub(crate) fn corrupt(&self, tensor: usize, byte: usize) {
        self.flip(tensor, byte, 4);
    }

    /// Flips bits of a byte of a buffer.
    pub(crate) fn flip(&self, tensor: usize, byte: usize, bits: u8) {
        let (_, _, buffer) = &self.buffers[tensor];
        let port = self.session.port();
        let mut bytes = port.content(buffer);
        bytes[byte] ^= bits;
        port.write(buffer, 0, &bytes).unwrap();
    }
}

/// Whether a layout can hold a tensor.
fn fits(tensor: &TestTensor, layout: &Layout) -> bool {
    let whole = tensor.dtype.element_bits() == 8 * tensor.dtype.cell_bytes() as u64;
    let rows = layout.transposed || layout.stride.is_some();
    (layout.element == Element::Packed || tensor.dtype == pulse_format::Dtype::Bf16)
        && (!rows || (whole && tensor.shape.len() > 1 && tensor.dtype.cell_bytes() < 8))
        && layout.offset.is_multiple_of(tensor.dtype.cell_bytes() as u64)
}

pub(crate) fn entry(tensor: &TestTensor) -> Tensor {
    Tensor { name: tensor.name.clone(), dtype: tensor.dtype, shape: tensor.shape.clone() }
}
