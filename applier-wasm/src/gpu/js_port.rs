//! The port to a page's own `GPUDevice`, by web-sys' types, and the only file that names them. Their methods are called by their
//! names and handles are cast unchecked, so that it does not matter which runtime's objects they are, or which globals it has.

use super::kernels::{Kernel, Slot};
use super::port::{Binding, Command, DeviceLimits, Port, Usage, check_range, dimensions};
use crate::error::Error;
use js_sys::{Promise, Reflect, Uint8Array};
use std::cell::RefCell;
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::gpu_buffer_usage::{COPY_DST, COPY_SRC, MAP_READ, STORAGE, UNIFORM};
use web_sys::{
    GpuBindGroup, GpuBindGroupDescriptor, GpuBindGroupEntry, GpuBindGroupLayout, GpuBuffer, GpuBufferBinding,
    GpuBufferDescriptor, GpuCommandBuffer, GpuCommandEncoder, GpuComputePassEncoder, GpuComputePipeline,
    GpuComputePipelineDescriptor, GpuDevice, GpuPipelineLayout, GpuProgrammableStage, GpuQueue, GpuShaderModule,
    GpuShaderModuleDescriptor, gpu_map_mode,
};

#[cfg(not(web_sys_unstable_apis))]
compile_error!(
    "web-sys hides WebGPU: please set RUSTFLAGS=--cfg=web_sys_unstable_apis for wasm32, or build by `cargo xtask wasm`"
);

type Thrown<T> = Result<T, JsValue>;

// The methods of the page's own objects whose exceptions web-sys does not catch. WebGPU knows none here, but Bun's error scopes throw
// once the device is lost, and so may whatever a page has put in a method's place. An exception that is not caught takes the apply with
// it, and who waits for that waits for ever.
#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(extends = GpuDevice)]
    type PageDevice;
    #[wasm_bindgen(method, structural, catch, js_name = createShaderModule)]
    fn create_shader_module(this: &PageDevice, descriptor: &GpuShaderModuleDescriptor) -> Thrown<GpuShaderModule>;
    #[wasm_bindgen(method, structural, catch, js_name = createComputePipeline)]
    fn create_compute_pipeline(
        this: &PageDevice,
        descriptor: &GpuComputePipelineDescriptor,
    ) -> Thrown<GpuComputePipeline>;
    #[wasm_bindgen(method, structural, catch, js_name = createBindGroup)]
    fn create_bind_group(this: &PageDevice, descriptor: &GpuBindGroupDescriptor) -> Thrown<GpuBindGroup>;
    #[wasm_bindgen(method, structural, catch, js_name = createCommandEncoder)]
    fn create_command_encoder(this: &PageDevice) -> Thrown<GpuCommandEncoder>;
    #[wasm_bindgen(method, structural, catch, js_name = pushErrorScope)]
    fn push_error_scope(this: &PageDevice, filter: &str) -> Thrown<()>;
    #[wasm_bindgen(method, structural, catch, js_name = popErrorScope)]
    fn pop_error_scope(this: &PageDevice) -> Thrown<Promise>;

    #[wasm_bindgen(extends = GpuQueue)]
    type PageQueue;
    #[wasm_bindgen(method, structural, catch)]
    fn submit(this: &PageQueue, commands: &[GpuCommandBuffer]) -> Thrown<()>;

    #[wasm_bindgen(extends = GpuBuffer)]
    #[derive(Debug, Clone)]
    type PageBuffer;
    #[wasm_bindgen(method, structural, catch, js_name = mapAsync)]
    fn map_async(this: &PageBuffer, mode: u32, offset: f64, bytes: f64) -> Thrown<Promise>;
    #[wasm_bindgen(method, structural, catch)]
    fn unmap(this: &PageBuffer) -> Thrown<()>;
    #[wasm_bindgen(method, structural, catch)]
    fn destroy(this: &PageBuffer) -> Thrown<()>;
}

// Words that web-sys has as enums, and so has wgpu: wasm-bindgen exports an enum by its name, and no name twice.
const AUTO_LAYOUT: &str = "auto";
const OUT_OF_MEMORY: &str = "out-of-memory";
/// What scopes catch.
const FILTERS: [&str; 3] = ["validation", OUT_OF_MEMORY, "internal"];

/// A page's `GPUDevice`, shared with its engine: no handler of the device is replaced.
pub struct JsPort {
    device: PageDevice,
    queue: PageQueue,
    limits: DeviceLimits,
    lost: Rc<RefCell<Option<String>>>,
    pipelines: RefCell<Vec<(Kernel, (GpuComputePipeline, GpuBindGroupLayout))>>,
    /// Scopes whose answer is still to come.
    scopes: RefCell<Vec<(&'static str, JsFuture)>>,
    staging: RefCell<Option<JsBuffer>>,
}

/// A `GPUBuffer`; cloning it clones the handle.
#[derive(Debug, Clone)]
pub struct JsBuffer {
    buffer: PageBuffer,
    size: u64,
    usage: u32,
}

impl PartialEq for JsBuffer {
    fn eq(&self, other: &Self) -> bool {
        self.as_js() == other.as_js()
    }
}

impl JsBuffer {
    /// The `GPUBuffer`.
    pub fn as_js(&self) -> &JsValue {
        self.buffer.as_ref()
    }
}

impl JsPort {
    /// Works on a page's `GPUDevice`. [`super::canary::check`] tells whether it computes anything.
    ///
    /// # Errors
    /// [`Error::Misuse`] if it is not a device.
    pub fn adopt(device: JsValue) -> Result<Self, Error> {
        let misuse = || Error::Misuse { what: "this is not a GPUDevice".into() };
        let queue = property(&device, "queue").filter(JsValue::is_object).ok_or_else(misuse)?;
        let limits = property(&device, "limits").ok_or_else(misuse)?;
        let limit = |name: &str| number(&limits, name).ok_or_else(misuse);
        let limits = DeviceLimits {
            binding_bytes: limit("maxStorageBufferBindingSize")? as u64,
            buffer_bytes: limit("maxBufferSize")? as u64,
            offset_alignment: limit("minStorageBufferOffsetAlignment")? as u64,
            workgroups: limit("maxComputeWorkgroupsPerDimension")? as u32,
        };
        let gone = property(&device, "lost").filter(JsValue::is_object).ok_or_else(misuse)?;
        let gone = JsFuture::from(Promise::resolve(&gone));
        let lost = Rc::<RefCell<Option<String>>>::default();
        let told = Rc::clone(&lost);
        spawn_local(async move {
            let info = gone.await.unwrap_or_else(|error| error);
            told.borrow_mut().get_or_insert_with(|| message(&info));
        });
        Ok(Self {
            device: device.unchecked_into(),
            queue: queue.unchecked_into(),
            limits,
            lost,
            pipelines: RefCell::default(),
            scopes: RefCell::default(),
            staging: RefCell::default(),
        })
    }

    /// Keeps to smaller limits than the device's.
    #[must_use]
    pub fn with_limits(self, limits: DeviceLimits) -> Self {
        Self { limits: self.limits.within(limits), ..self }
    }

    /// A handle to a `GPUBuffer` of the page's, of the same device.
    ///
    /// # Errors
    /// [`Error::Misuse`] if it is not a buffer.
    pub fn buffer(&self, buffer: JsValue) -> Result<JsBuffer, Error> {
        let misuse = || Error::Misuse { what: "this is not a GPUBuffer".into() };
        let size = number(&buffer, "size").ok_or_else(misuse)? as u64;
        let usage = number(&buffer, "usage").ok_or_else(misuse)? as u32;
        Ok(JsBuffer { buffer: buffer.unchecked_into(), size, usage })
    }

    fn alive(&self) -> Result<(), Error> {
        match &*self.lost.borrow() {
            Some(message) => Err(Error::DeviceLost { message: message.clone() }),
            None => Ok(()),
        }
    }

    /// An exception of a method that throws at nothing we pass: the device is gone. (Some runtimes throw then, most do not.)
    fn gone(&self, thrown: &JsValue) -> Error {
        let message = self.lost.borrow_mut().get_or_insert_with(|| message(thrown)).clone();
        Error::DeviceLost { message }
    }

    /// Any other exception.
    #[inline(never)]
    fn refused(&self, thrown: &JsValue) -> Error {
        self.alive().err().unwrap_or_else(|| Error::Gpu { message: message(thrown) })
    }

    /// Does something within error scopes, whose answers are kept for the next wait.
    fn scoped<T>(&self, work: impl FnOnce() -> Thrown<T>) -> Result<T, Error> {
        self.open_scopes()?;
        let done = work();
        self.close_scopes()?;
        done.map_err(|thrown| self.refused(&thrown))
    }

    // Out of line, as what follows: once in the module instead of once for each kind of work.
    #[inline(never)]
    fn open_scopes(&self) -> Result<(), Error> {
        self.alive()?;
        FILTERS
            .into_iter()
            .try_for_each(|filter| self.device.push_error_scope(filter))
            .map_err(|thrown| self.gone(&thrown))
    }

    #[inline(never)]
    fn close_scopes(&self) -> Result<(), Error> {
        for filter in FILTERS.into_iter().rev() {
            let answer = self.device.pop_error_scope().map_err(|thrown| self.gone(&thrown))?;
            self.scopes.borrow_mut().push((filter, JsFuture::from(answer)));
        }
        Ok(())
    }

    /// The first error among what was kept.
    async fn kept_errors(&self) -> Result<(), Error> {
        let scopes = std::mem::take(&mut *self.scopes.borrow_mut());
        let mut first = Ok(());
        for (filter, answer) in scopes {
            // A scope that cannot be popped belongs to a lost device.
            let Ok(error) = answer.await else { continue };
            if error.is_null() || error.is_undefined() {
                continue;
            }
            let message = message(&error);
            let error = match filter {
                OUT_OF_MEMORY => Error::OutOfMemory { message },
                _ => Error::Gpu { message },
            };
            first = first.and(Err(error));
        }
        first
    }

    fn create_raw(&self, label: &str, size: u64, usage: u32) -> Thrown<JsBuffer> {
        let descriptor = GpuBufferDescriptor::new_with_f64(float(size), usage);
        descriptor.set_label(label);
        let buffer = self.device.create_buffer(&descriptor)?.unchecked_into();
        Ok(JsBuffer { buffer, size, usage })
    }

    fn encode(&self, commands: &[Command<JsBuffer>]) -> Thrown<()> {
        let encoder = self.device.create_command_encoder()?;
        // One pass for all dispatches between two clears: each sees what those before it wrote.
        let mut pass: Option<GpuComputePassEncoder> = None;
        for command in commands {
            match command {
                Command::Clear(range) => {
                    pass.take().inspect(GpuComputePassEncoder::end);
                    encoder.clear_buffer_with_f64_and_f64(
                        &range.buffer.buffer,
                        float(range.offset),
                        float(range.bytes),
                    );
                }
                Command::Dispatch { kernel, params, slots, workgroups } => {
                    let open = pass.take().unwrap_or_else(|| encoder.begin_compute_pass());
                    self.dispatch(&open, *kernel, params, slots, *workgroups)?;
                    pass = Some(open);
                }
            }
        }
        pass.inspect(GpuComputePassEncoder::end);
        self.queue.submit(&[encoder.finish()])
    }

    fn dispatch(
        &self,
        pass: &GpuComputePassEncoder,
        kernel: Kernel,
        params: &Binding<JsBuffer>,
        slots: &[(Slot, Binding<JsBuffer>)],
        workgroups: u32,
    ) -> Thrown<()> {
        let (pipeline, layout) = self.pipeline(kernel)?;
        let mut entries = vec![entry(0, params)];
        for wanted in kernel.slots() {
            // WebGPU refuses the group if one is missing.
            if let Some((slot, binding)) = slots.iter().find(|(slot, _)| slot == wanted) {
                entries.push(entry(*slot as u32, binding));
            }
        }
        let group = self.device.create_bind_group(&GpuBindGroupDescriptor::new(&entries, &layout))?;
        let (x, y) = dimensions(workgroups, self.limits.workgroups);
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, Some(&group));
        pass.dispatch_workgroups_with_workgroup_count_y(x, y);
        Ok(())
    }

    fn pipeline(&self, kernel: Kernel) -> Thrown<(GpuComputePipeline, GpuBindGroupLayout)> {
        if let Some((_, found)) = self.pipelines.borrow().iter().find(|(made, _)| *made == kernel) {
            return Ok(found.clone());
        }
        let module = GpuShaderModuleDescriptor::new(&kernel.source());
        module.set_label(kernel.name());
        let stage = GpuProgrammableStage::new(&self.device.create_shader_module(&module)?);
        stage.set_entry_point("main");
        let layout = JsValue::from(AUTO_LAYOUT).unchecked_into::<GpuPipelineLayout>();
        let descriptor = GpuComputePipelineDescriptor::new(&layout, &stage);
        descriptor.set_label(kernel.name());
        let pipeline = self.device.create_compute_pipeline(&descriptor)?;
        let made = (pipeline.clone(), pipeline.get_bind_group_layout(0));
        self.pipelines.borrow_mut().push((kernel, made.clone()));
        Ok(made)
    }

    /// Copies a range, or zeros, to where the host can read it, and waits. Only a lost device fails to map without saying why.
    async fn fetch(&self, source: Option<(&JsBuffer, u64)>, bytes: u64) -> Result<Vec<u8>, Error> {
        let kept = self.staging.take().filter(|kept| kept.size >= bytes);
        let staging = match kept {
            Some(kept) => kept,
            None => self.scoped(|| self.create_raw("pulse read", bytes.max(1024), MAP_READ | COPY_DST))?,
        };
        let target = &staging.buffer;
        self.scoped(|| {
            let encoder = self.device.create_command_encoder()?;
            match source {
                Some((from, offset)) => {
                    let (offset, bytes) = (float(offset), float(bytes));
                    encoder.copy_buffer_to_buffer_with_f64_and_f64_and_f64(&from.buffer, offset, target, 0.0, bytes)?;
                }
                None => encoder.clear_buffer_with_f64_and_f64(target, 0.0, float(bytes)),
            }
            self.queue.submit(&[encoder.finish()])
        })?;
        // Of a lost device some say that its buffers are not valid.
        let said = self.scopes.borrow().len();
        let mapped = self.scoped(|| Ok(JsFuture::from(target.map_async(gpu_map_mode::READ, 0.0, float(bytes))?)))?;
        self.scopes.borrow_mut().truncate(said);
        let mapped = mapped.await;
        let kept = self.kept_errors().await;
        self.alive()?;
        kept?;
        mapped.map_err(|thrown| self.gone(&thrown))?;
        let copy = || -> Thrown<Vec<u8>> {
            let range = staging.buffer.get_mapped_range_with_f64_and_f64(0.0, float(bytes))?;
            let copy = Uint8Array::new(&range).to_vec();
            staging.buffer.unmap()?;
            Ok(copy)
        };
        let copy = copy().map_err(|thrown| self.refused(&thrown))?;
        self.staging.replace(Some(staging));
        Ok(copy)
    }
}

/// What an error, or whatever was thrown, says.
fn message(thrown: &JsValue) -> String {
    let said = property(thrown, "message").and_then(|said| said.as_string());
    said.or_else(|| thrown.as_string()).filter(|said| !said.is_empty()).unwrap_or_else(|| "it does not say why".into())
}

/// A property of whatever a page hands us; none of what is not there, or throws.
fn property(of: &JsValue, name: &str) -> Option<JsValue> {
    Reflect::get(of, &name.into()).ok()
}

/// A property that is a number, and not negative.
fn number(of: &JsValue, name: &str) -> Option<f64> {
    property(of, name)?.as_f64().filter(|number| *number >= 0.0)
}

/// Sizes of buffers fit a JS number.
fn float(bytes: u64) -> f64 {
    bytes as f64
}

fn entry(binding: u32, range: &Binding<JsBuffer>) -> GpuBindGroupEntry {
    let resource = GpuBufferBinding::new(&range.buffer.buffer);
    resource.set_offset_f64(float(range.offset));
    resource.set_size_f64(float(range.bytes));
    GpuBindGroupEntry::new_with_gpu_buffer_binding(binding, &resource)
}

impl Port for JsPort {
    type Buffer = JsBuffer;

    fn limits(&self) -> DeviceLimits {
        self.limits
    }

    fn size(&self, buffer: &JsBuffer) -> u64 {
        buffer.size
    }

    fn usable(&self, buffer: &JsBuffer) -> bool {
        let needed = STORAGE | COPY_SRC | COPY_DST;
        buffer.usage & needed == needed
    }

    fn create(&self, label: &'static str, bytes: u64, usage: Usage) -> Result<JsBuffer, Error> {
        self.alive()?;
        if bytes > self.limits.buffer_bytes {
            return Err(Error::OutOfMemory { message: label.into() });
        }
        let usage = match usage {
            Usage::Storage => STORAGE | COPY_SRC | COPY_DST,
            Usage::Uniform => UNIFORM | COPY_DST,
        };
        self.scoped(|| self.create_raw(label, bytes, usage))
    }

    fn destroy(&self, buffer: &JsBuffer) {
        // On a lost device there is nothing left to free.
        let _ = buffer.buffer.destroy();
    }

    fn write(&self, buffer: &JsBuffer, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.alive()?;
        check_range(buffer.size, offset, bytes.len() as u64)?;
        let written = self.queue.write_buffer_with_f64_and_u8_slice(&buffer.buffer, float(offset), bytes);
        written.map_err(|thrown| self.gone(&thrown))
    }

    fn submit(&self, commands: &[Command<JsBuffer>]) -> Result<(), Error> {
        self.scoped(|| self.encode(commands))
    }

    async fn read(&self, buffer: &JsBuffer, offset: u64, bytes: u64) -> Result<Vec<u8>, Error> {
        check_range(buffer.size, offset, bytes)?;
        if bytes == 0 {
            return self.settle().await.map(|()| Vec::new());
        }
        self.fetch(Some((buffer, offset)), bytes).await
    }

    async fn settle(&self) -> Result<(), Error> {
        self.fetch(None, 4).await.map(|_| ())
    }
}
