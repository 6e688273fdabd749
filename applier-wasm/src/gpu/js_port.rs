//! The port to a page's own `GPUDevice`. The only file that names WebGPU's JS interface: a few methods, called by their names, so
//! that it does not matter which runtime's objects they are.

use super::kernels::{Kernel, Slot};
use super::port::{Binding, Command, DeviceLimits, Port, Usage, check_range, dimensions};
use crate::error::Error;
use js_sys::{Array, ArrayBuffer, Object, Promise, Reflect, Uint8Array};
use std::cell::RefCell;
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};

type Thrown<T> = Result<T, JsValue>;

#[wasm_bindgen]
extern "C" {
    #[derive(Clone)]
    type GpuDevice;
    #[wasm_bindgen(method, structural, catch, getter)]
    fn queue(this: &GpuDevice) -> Thrown<GpuQueue>;
    #[wasm_bindgen(method, structural, catch, getter)]
    fn lost(this: &GpuDevice) -> Thrown<Promise>;
    #[wasm_bindgen(method, structural, catch, getter)]
    fn limits(this: &GpuDevice) -> Thrown<JsValue>;
    #[wasm_bindgen(method, structural, catch, js_name = createBuffer)]
    fn create_buffer(this: &GpuDevice, descriptor: &Object) -> Thrown<GpuBuffer>;
    #[wasm_bindgen(method, structural, catch, js_name = createShaderModule)]
    fn create_shader_module(this: &GpuDevice, descriptor: &Object) -> Thrown<JsValue>;
    #[wasm_bindgen(method, structural, catch, js_name = createComputePipeline)]
    fn create_compute_pipeline(this: &GpuDevice, descriptor: &Object) -> Thrown<GpuPipeline>;
    #[wasm_bindgen(method, structural, catch, js_name = createBindGroup)]
    fn create_bind_group(this: &GpuDevice, descriptor: &Object) -> Thrown<JsValue>;
    #[wasm_bindgen(method, structural, catch, js_name = createCommandEncoder)]
    fn create_command_encoder(this: &GpuDevice) -> Thrown<GpuEncoder>;
    #[wasm_bindgen(method, structural, catch, js_name = pushErrorScope)]
    fn push_error_scope(this: &GpuDevice, filter: &str) -> Thrown<()>;
    #[wasm_bindgen(method, structural, catch, js_name = popErrorScope)]
    fn pop_error_scope(this: &GpuDevice) -> Thrown<Promise>;

    #[derive(Clone)]
    type GpuQueue;
    #[wasm_bindgen(method, structural, catch, js_name = writeBuffer)]
    fn write_buffer(this: &GpuQueue, buffer: &GpuBuffer, offset: f64, bytes: &[u8]) -> Thrown<()>;
    #[wasm_bindgen(method, structural, catch)]
    fn submit(this: &GpuQueue, commands: &Array) -> Thrown<()>;

    #[derive(Debug, Clone)]
    type GpuBuffer;
    #[wasm_bindgen(method, structural, catch, getter)]
    fn size(this: &GpuBuffer) -> Thrown<JsValue>;
    #[wasm_bindgen(method, structural, catch, getter)]
    fn usage(this: &GpuBuffer) -> Thrown<JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    fn destroy(this: &GpuBuffer) -> Thrown<()>;
    #[wasm_bindgen(method, structural, catch, js_name = mapAsync)]
    fn map_async(this: &GpuBuffer, mode: u32, offset: f64, bytes: f64) -> Thrown<Promise>;
    #[wasm_bindgen(method, structural, catch, js_name = getMappedRange)]
    fn get_mapped_range(this: &GpuBuffer, offset: f64, bytes: f64) -> Thrown<ArrayBuffer>;
    #[wasm_bindgen(method, structural, catch)]
    fn unmap(this: &GpuBuffer) -> Thrown<()>;

    #[derive(Clone)]
    type GpuPipeline;
    #[wasm_bindgen(method, structural, catch, js_name = getBindGroupLayout)]
    fn get_bind_group_layout(this: &GpuPipeline, index: u32) -> Thrown<JsValue>;

    type GpuEncoder;
    #[wasm_bindgen(method, structural, catch, js_name = beginComputePass)]
    fn begin_compute_pass(this: &GpuEncoder) -> Thrown<GpuPass>;
    #[wasm_bindgen(method, structural, catch, js_name = clearBuffer)]
    fn clear_buffer(this: &GpuEncoder, buffer: &GpuBuffer, offset: f64, bytes: f64) -> Thrown<()>;
    #[wasm_bindgen(method, structural, catch, js_name = copyBufferToBuffer)]
    fn copy_buffer_to_buffer(
        this: &GpuEncoder,
        source: &GpuBuffer,
        source_offset: f64,
        target: &GpuBuffer,
        target_offset: f64,
        bytes: f64,
    ) -> Thrown<()>;
    #[wasm_bindgen(method, structural, catch)]
    fn finish(this: &GpuEncoder) -> Thrown<JsValue>;

    type GpuPass;
    #[wasm_bindgen(method, structural, catch, js_name = setPipeline)]
    fn set_pipeline(this: &GpuPass, pipeline: &GpuPipeline) -> Thrown<()>;
    #[wasm_bindgen(method, structural, catch, js_name = setBindGroup)]
    fn set_bind_group(this: &GpuPass, index: u32, group: &JsValue) -> Thrown<()>;
    #[wasm_bindgen(method, structural, catch, js_name = dispatchWorkgroups)]
    fn dispatch_workgroups(this: &GpuPass, x: u32, y: u32) -> Thrown<()>;
    #[wasm_bindgen(method, structural, catch)]
    fn end(this: &GpuPass) -> Thrown<()>;
}

// `GPUBufferUsage` and `GPUMapMode`, which not every runtime has as globals.
const MAP_READ: u32 = 1;
const COPY_SRC: u32 = 4;
const COPY_DST: u32 = 8;
const UNIFORM: u32 = 64;
const STORAGE: u32 = 128;
const MODE_READ: u32 = 1;

const OUT_OF_MEMORY: &str = "out-of-memory";
/// What scopes catch.
const FILTERS: [&str; 3] = ["validation", OUT_OF_MEMORY, "internal"];

/// A page's `GPUDevice`, shared with its engine: no handler of the device is replaced.
pub struct JsPort {
    device: GpuDevice,
    queue: GpuQueue,
    limits: DeviceLimits,
    lost: Rc<RefCell<Option<String>>>,
    pipelines: RefCell<Vec<(Kernel, (GpuPipeline, JsValue))>>,
    /// Scopes whose answer is still to come.
    scopes: RefCell<Vec<(&'static str, JsFuture)>>,
    staging: RefCell<Option<JsBuffer>>,
}

/// A `GPUBuffer`; cloning it clones the handle.
#[derive(Debug, Clone)]
pub struct JsBuffer {
    buffer: GpuBuffer,
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
        let misuse = |_| Error::Misuse { what: "this is not a GPUDevice".into() };
        let device: GpuDevice = device.unchecked_into();
        let queue = device.queue().map_err(misuse)?;
        let limits = device.limits().map_err(misuse)?;
        let limit = |name: &str| number(Reflect::get(&limits, &name.into())).map_err(misuse);
        let limits = DeviceLimits {
            binding_bytes: limit("maxStorageBufferBindingSize")? as u64,
            buffer_bytes: limit("maxBufferSize")? as u64,
            offset_alignment: limit("minStorageBufferOffsetAlignment")? as u64,
            workgroups: limit("maxComputeWorkgroupsPerDimension")? as u32,
        };
        let lost = Rc::<RefCell<Option<String>>>::default();
        let gone = JsFuture::from(device.lost().map_err(misuse)?);
        let told = Rc::clone(&lost);
        spawn_local(async move {
            let info = gone.await.unwrap_or_else(|error| error);
            told.borrow_mut().get_or_insert_with(|| message(&info));
        });
        Ok(Self {
            device,
            queue,
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
        let misuse = |_| Error::Misuse { what: "this is not a GPUBuffer".into() };
        let buffer: GpuBuffer = buffer.unchecked_into();
        let size = number(buffer.size()).map_err(misuse)? as u64;
        let usage = number(buffer.usage()).map_err(misuse)? as u32;
        Ok(JsBuffer { buffer, size, usage })
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
    fn refused(&self, thrown: &JsValue) -> Error {
        self.alive().err().unwrap_or_else(|| Error::Gpu { message: message(thrown) })
    }

    /// Does something within error scopes, whose answers are kept for the next wait.
    fn scoped<T>(&self, work: impl FnOnce() -> Thrown<T>) -> Result<T, Error> {
        self.alive()?;
        for filter in FILTERS {
            self.device.push_error_scope(filter).map_err(|thrown| self.gone(&thrown))?;
        }
        let done = work();
        for filter in FILTERS.into_iter().rev() {
            let answer = self.device.pop_error_scope().map_err(|thrown| self.gone(&thrown))?;
            self.scopes.borrow_mut().push((filter, JsFuture::from(answer)));
        }
        done.map_err(|thrown| self.refused(&thrown))
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
        let descriptor = object([("label", label.into()), ("size", float(size).into()), ("usage", usage.into())]);
        let buffer = self.device.create_buffer(&descriptor)?;
        Ok(JsBuffer { buffer, size, usage })
    }

    fn encode(&self, commands: &[Command<JsBuffer>]) -> Thrown<()> {
        let encoder = self.device.create_command_encoder()?;
        // One pass for all dispatches between two clears: each sees what those before it wrote.
        let mut pass: Option<GpuPass> = None;
        for command in commands {
            match command {
                Command::Clear(range) => {
                    pass.take().map_or(Ok(()), |pass| pass.end())?;
                    encoder.clear_buffer(&range.buffer.buffer, float(range.offset), float(range.bytes))?;
                }
                Command::Dispatch { kernel, params, slots, workgroups } => {
                    let open = pass.take().map_or_else(|| encoder.begin_compute_pass(), Ok)?;
                    self.dispatch(&open, *kernel, params, slots, *workgroups)?;
                    pass = Some(open);
                }
            }
        }
        pass.map_or(Ok(()), |pass| pass.end())?;
        self.queue.submit(&Array::of1(&encoder.finish()?))
    }

    fn dispatch(
        &self,
        pass: &GpuPass,
        kernel: Kernel,
        params: &Binding<JsBuffer>,
        slots: &[(Slot, Binding<JsBuffer>)],
        workgroups: u32,
    ) -> Thrown<()> {
        let (pipeline, layout) = self.pipeline(kernel)?;
        let entries = Array::of1(&entry(0, params));
        for wanted in kernel.slots() {
            // WebGPU refuses the group if one is missing.
            if let Some((slot, binding)) = slots.iter().find(|(slot, _)| slot == wanted) {
                entries.push(&entry(*slot as u32, binding));
            }
        }
        let group = self.device.create_bind_group(&object([("layout", layout), ("entries", entries.into())]))?;
        let (x, y) = dimensions(workgroups, self.limits.workgroups);
        pass.set_pipeline(&pipeline)?;
        pass.set_bind_group(0, &group)?;
        pass.dispatch_workgroups(x, y)
    }

    fn pipeline(&self, kernel: Kernel) -> Thrown<(GpuPipeline, JsValue)> {
        if let Some((_, found)) = self.pipelines.borrow().iter().find(|(made, _)| *made == kernel) {
            return Ok(found.clone());
        }
        let label = JsValue::from(kernel.name());
        let module = object([("label", label.clone()), ("code", kernel.source().into())]);
        let module = self.device.create_shader_module(&module)?;
        let stage = object([("module", module), ("entryPoint", "main".into())]);
        let descriptor = object([("label", label), ("layout", "auto".into()), ("compute", stage.into())]);
        let pipeline = self.device.create_compute_pipeline(&descriptor)?;
        let made = (pipeline.clone(), pipeline.get_bind_group_layout(0)?);
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
                    encoder.copy_buffer_to_buffer(&from.buffer, float(offset), target, 0.0, float(bytes))?;
                }
                None => encoder.clear_buffer(target, 0.0, float(bytes))?,
            }
            self.queue.submit(&Array::of1(&encoder.finish()?))
        })?;
        // Of a lost device some say that its buffers are not valid.
        let said = self.scopes.borrow().len();
        let mapped = self.scoped(|| Ok(JsFuture::from(target.map_async(MODE_READ, 0.0, float(bytes))?)))?;
        self.scopes.borrow_mut().truncate(said);
        let mapped = mapped.await;
        let kept = self.kept_errors().await;
        self.alive()?;
        kept?;
        mapped.map_err(|thrown| self.gone(&thrown))?;
        let copy = || -> Thrown<Vec<u8>> {
            let range = staging.buffer.get_mapped_range(0.0, float(bytes))?;
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
    let said = Reflect::get(thrown, &"message".into()).ok().and_then(|said| said.as_string());
    said.or_else(|| thrown.as_string()).filter(|said| !said.is_empty()).unwrap_or_else(|| "it does not say why".into())
}

/// A number that is one, and not negative.
fn number(value: Thrown<JsValue>) -> Thrown<f64> {
    let value = value?;
    value.as_f64().filter(|number| *number >= 0.0).ok_or(value)
}

/// Sizes of buffers fit a JS number.
fn float(bytes: u64) -> f64 {
    bytes as f64
}

fn object<const N: usize>(fields: [(&str, JsValue); N]) -> Object {
    let object = Object::new();
    for (name, value) in fields {
        // An object of our own takes any field.
        let _ = Reflect::set(&object, &name.into(), &value);
    }
    object
}

fn entry(binding: u32, range: &Binding<JsBuffer>) -> JsValue {
    let buffer = range.buffer.as_js().clone();
    let resource =
        object([("buffer", buffer), ("offset", float(range.offset).into()), ("size", float(range.bytes).into())]);
    object([("binding", binding.into()), ("resource", resource.into())]).into()
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
        let written = self.queue.write_buffer(&buffer.buffer, float(offset), bytes);
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
