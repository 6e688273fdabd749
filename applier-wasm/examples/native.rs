//! An engine's own wgpu device, its own buffer, two tensors somewhere in it: a patch applied in place.
//!
//! `cargo run -p pulse-applier-wasm --example native [BASE.safetensors PATCH.pulse...]`; without arguments a small checkpoint of this
//! repository's tests is used. A GPU is needed, or a software one (Debian: mesa-vulkan-drivers).

use pulse_applier_wasm::gpu::wgpu_port::{WgpuPort, wgpu};
use pulse_applier_wasm::gpu::{Layout, Session};
use pulse_applier_wasm::{NoHooks, Options};
use pulse_format::{Dtype, Tensor};
use safetensors::SafeTensors;
use std::error::Error;

const BASE: &[u8] = include_bytes!("../../tests/vectors/v1/mixed.base.safetensors");
const PATCH: &[u8] = include_bytes!("../../tests/vectors/v1/mixed.pulse");

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let files = arguments.iter().map(std::fs::read).collect::<Result<Vec<_>, _>>()?;
    match files.split_first() {
        Some((base, patches)) => pollster::block_on(run(base, patches)),
        None => pollster::block_on(run(BASE, &[PATCH.to_vec()])),
    }
}

async fn run(base: &[u8], patches: &[Vec<u8>]) -> Result<(), Box<dyn Error>> {
    // The engine's side: a device, and one large buffer that its tensors are cut from.
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapter = instance.request_adapter(&wgpu::RequestAdapterOptions::default()).await?;
    let (device, queue) = adapter.request_device(&wgpu::DeviceDescriptor::default()).await?;
    let checkpoint = SafeTensors::deserialize(base)?;
    let mut pool: Vec<u8> = Vec::new();
    let mut places = Vec::new();
    for (name, view) in checkpoint.tensors() {
        let dtype = Dtype::from_name(&view.dtype().to_string()).ok_or("an unknown dtype")?;
        let shape = view.shape().iter().map(|size| *size as u64).collect();
        places.push((Tensor { name, dtype, shape }, pool.len() as u64));
        pool.extend_from_slice(view.data());
        pool.resize(pool.len().next_multiple_of(256), 0);
    }
    let buffer = device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("the engine's weights"),
        size: pool.len() as u64,
        usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    queue.write_buffer(&buffer, 0, &pool);

    // The receiver's side: adopt the device, say where each tensor is, apply.
    let port = WgpuPort::adopt(device, queue);
    let buffer = port.buffer(buffer);
    let mut session = Session::new(port, Options::default());
    for (tensor, offset) in places {
        session.bind(tensor, &buffer, Layout { offset, ..Layout::default() })?;
    }
    for patch in patches {
        let applied = session.apply(patch.as_slice(), &NoHooks).await?;
        println!(
            "now step {}: {} of {} cells changed, fingerprint {}",
            applied.target_step, applied.changes, applied.cells, applied.fingerprint
        );
    }
    let proof = session.fingerprint(0x5eed).await?;
    println!("holds step {}, challenged: {proof}", session.step().unwrap_or_default());
    Ok(())
}
