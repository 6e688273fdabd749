//! The port to wgpu: native devices, and in wasm a device of our own. The only file that names `wgpu`.
//!
//! In wasm, wgpu itself panics where a runtime lacks the classes it asks `instanceof` of (Bun, Node), and when a call on a lost
//! device throws: there, and for a page's own device, `JsPort` is the port.

use super::canary;
use super::kernels::{Kernel, Slot};
use super::port::{Binding, Command, DeviceLimits, Port, Usage, check_range, dimensions};
use super::reply::{Reply, lock};
use crate::error::Error;
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

pub use wgpu;

/// What scopes catch. In wasm wgpu panics on handing out an internal error: the browser reports those itself.
#[cfg(not(target_arch = "wasm32"))]
const FILTERS: &[wgpu::ErrorFilter] =
    &[wgpu::ErrorFilter::Validation, wgpu::ErrorFilter::OutOfMemory, wgpu::ErrorFilter::Internal];
#[cfg(target_arch = "wasm32")]
const FILTERS: &[wgpu::ErrorFilter] = &[wgpu::ErrorFilter::Validation, wgpu::ErrorFilter::OutOfMemory];

/// A device of wgpu.
///
/// Natively [`Port::read`] and [`Port::settle`] block the thread until the device has answered.
#[derive(Debug)]
pub struct WgpuPort {
    device: wgpu::Device,
    queue: wgpu::Queue,
    limits: DeviceLimits,
    /// A buffer that can be mapped as long as the device is there.
    #[cfg(not(target_arch = "wasm32"))]
    probe: wgpu::Buffer,
    faults: Arc<Faults>,
    pipelines: RefCell<HashMap<Kernel, Pipeline>>,
    scopes: RefCell<Scopes>,
    staging: RefCell<Option<wgpu::Buffer>>,
}

/// A buffer of a [`WgpuPort`]; cloning it clones the handle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WgpuBuffer(wgpu::Buffer);

/// Which adapter [`WgpuPort::open`] asks for.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenOptions {
    /// One that saves power, where there are several.
    pub low_power: bool,
    /// One that runs on the CPU.
    pub software: bool,
}

#[derive(Debug)]
struct Pipeline {
    pipeline: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
}

/// What callbacks of the device leave.
#[derive(Debug, Default)]
struct Faults {
    lost: Mutex<Option<String>>,
    uncaptured: Mutex<Option<Error>>,
}

/// What a scope has caught.
type Answer = Pin<Box<dyn Future<Output = Option<wgpu::Error>>>>;

/// Scopes whose answer is still to come; natively there is never one.
#[derive(Default)]
struct Scopes(Vec<Answer>);

impl std::fmt::Debug for Scopes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} scopes", self.0.len())
    }
}

impl Faults {
    fn lose(&self, message: String) {
        lock(&self.lost).get_or_insert(message);
    }
}

fn reported(error: wgpu::Error) -> Error {
    match error {
        wgpu::Error::OutOfMemory { source } => Error::OutOfMemory { message: source.to_string() },
        wgpu::Error::Validation { description, .. } | wgpu::Error::Internal { description, .. } => {
            Error::Gpu { message: description }
        }
    }
}

impl WgpuBuffer {
    /// The buffer as wgpu knows it.
    pub fn as_wgpu(&self) -> &wgpu::Buffer {
        &self.0
    }

    /// The browser's `GPUBuffer`.
    #[cfg(target_arch = "wasm32")]
    pub fn as_js(&self) -> Option<wasm_bindgen::JsValue> {
        self.0.as_webgpu().map(|buffer| buffer.clone().into())
    }
}

impl WgpuPort {
    /// Works on a caller's device.
    ///
    /// Natively its error and loss handlers stay the caller's.
    pub fn adopt(device: wgpu::Device, queue: wgpu::Queue) -> Self {
        let limits = device.limits();
        let limits = DeviceLimits {
            binding_bytes: limits.max_storage_buffer_binding_size,
            buffer_bytes: limits.max_buffer_size,
            offset_alignment: limits.min_storage_buffer_offset_alignment.into(),
            workgroups: limits.max_compute_workgroups_per_dimension,
        };
        let faults = Arc::<Faults>::default();
        // A browser has any number of these callbacks, a native device has one.
        #[cfg(target_arch = "wasm32")]
        watch_loss(&device, &faults);
        Self {
            #[cfg(not(target_arch = "wasm32"))]
            probe: within_scopes(&device, || staging(&device, 4)).0,
            device,
            queue,
            limits,
            faults,
            pipelines: RefCell::default(),
            scopes: RefCell::default(),
            staging: RefCell::default(),
        }
    }

    /// Opens a device of our own, with the largest buffers and bindings its adapter has and no optional feature, and makes it
    /// compute something.
    ///
    /// # Errors
    /// [`Error::NoAdapter`].
    pub async fn open(options: OpenOptions) -> Result<Self, Error> {
        let refused = |message: String| Error::NoAdapter { message };
        #[cfg(target_arch = "wasm32")]
        if !has_browser_globals() {
            // wgpu would panic.
            return Err(refused("wgpu wants a Window or a WorkerGlobalScope".into()));
        }
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        let power_preference =
            if options.low_power { wgpu::PowerPreference::LowPower } else { wgpu::PowerPreference::HighPerformance };
        let wanted = wgpu::RequestAdapterOptions {
            power_preference,
            force_fallback_adapter: options.software,
            ..wgpu::RequestAdapterOptions::default()
        };
        let adapter = instance.request_adapter(&wanted).await.map_err(|error| refused(error.to_string()))?;
        if adapter.get_info().backend == wgpu::Backend::Noop {
            return Err(refused("the adapter is one that does nothing".into()));
        }
        let offered = adapter.limits();
        let required_limits = wgpu::Limits {
            max_storage_buffer_binding_size: offered.max_storage_buffer_binding_size,
            max_buffer_size: offered.max_buffer_size,
            ..wgpu::Limits::downlevel_defaults()
        };
        let descriptor =
            wgpu::DeviceDescriptor { label: Some("pulse"), required_limits, ..wgpu::DeviceDescriptor::default() };
        let (device, queue) = adapter.request_device(&descriptor).await.map_err(|error| refused(error.to_string()))?;
        let port = Self::adopt(device, queue);
        #[cfg(not(target_arch = "wasm32"))]
        let port = port.owned();
        canary::check(&port).await?;
        Ok(port)
    }

    /// Takes the device's handlers, of which a native device has one each.
    #[cfg(not(target_arch = "wasm32"))]
    fn owned(self) -> Self {
        watch_loss(&self.device, &self.faults);
        let faults = Arc::clone(&self.faults);
        self.device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            lock(&faults.uncaptured).get_or_insert(reported(error));
        }));
        self
    }

    /// Keeps to smaller limits than the device's.
    #[must_use]
    pub fn with_limits(self, limits: DeviceLimits) -> Self {
        Self { limits: self.limits.within(limits), ..self }
    }

    /// A handle to a buffer of the caller's, of the same device.
    #[must_use]
    pub fn buffer(&self, buffer: wgpu::Buffer) -> WgpuBuffer {
        WgpuBuffer(buffer)
    }

    /// The device.
    pub fn device(&self) -> &wgpu::Device {
        &self.device
    }

    /// The device's queue.
    pub fn queue(&self) -> &wgpu::Queue {
        &self.queue
    }

    /// The browser's `GPUDevice`.
    #[cfg(target_arch = "wasm32")]
    pub fn device_as_js(&self) -> Option<wasm_bindgen::JsValue> {
        self.device.as_webgpu().map(|device| device.clone().into())
    }

    /// Whether a native device is gone, which it would tell at once only the one handler that may be its owner's.
    #[cfg(not(target_arch = "wasm32"))]
    fn find_loss(&self) {
        if lock(&self.faults.lost).is_some() {
            return;
        }
        let refused = Arc::<Reply>::default();
        let reply = Arc::clone(&refused);
        let map = || self.probe.map_async(wgpu::MapMode::Read, 0..4, move |mapped| reply.give(mapped.is_ok()));
        within_scopes(&self.device, map);
        if refused.given().is_none() {
            self.probe.unmap();
            return;
        }
        // Our own handler knows the reason.
        self.poll(wgpu::PollType::Poll);
        self.faults.lose("destroyed, or out of reach".into());
    }

    /// Lets a native device make its callbacks. wgpu panics where it finds the device lost here; that loss has been recorded.
    #[cfg(not(target_arch = "wasm32"))]
    fn poll(&self, kind: wgpu::PollType) {
        let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.device.poll(kind).is_ok()));
        if polled.is_err() {
            self.faults.lose("it was lost while we waited for it".into());
        }
    }

    /// What has been reported so far.
    fn alive(&self) -> Result<(), Error> {
        #[cfg(not(target_arch = "wasm32"))]
        self.find_loss();
        if let Some(message) = lock(&self.faults.lost).clone() {
            return Err(Error::DeviceLost { message });
        }
        lock(&self.faults.uncaptured).take().map_or(Ok(()), Err)
    }

    /// Does something; errors that the device knows at once are returned, others are kept for the next wait.
    fn scoped<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let (mut done, answers) = within_scopes(&self.device, work);
        for mut answer in answers {
            match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(None) => {}
                Poll::Ready(Some(error)) => done = done.and(Err(reported(error))),
                Poll::Pending => self.scopes.borrow_mut().0.push(answer),
            }
        }
        // A device that was lost meanwhile may have said anything.
        done.or_else(|error| self.alive().and(Err(error)))
    }

    /// The first error among what was kept.
    async fn kept_errors(&self) -> Result<(), Error> {
        let scopes = std::mem::take(&mut self.scopes.borrow_mut().0);
        let mut first = Ok(());
        for scope in scopes {
            if let Some(error) = scope.await {
                first = first.and(Err(reported(error)));
            }
        }
        first
    }

    fn encode(&self, commands: &[Command<WgpuBuffer>]) -> Result<(), Error> {
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("pulse") });
        let dispatches = |command: &Command<WgpuBuffer>| matches!(command, Command::Dispatch { .. });
        // One pass for all dispatches between two clears: each sees what those before it wrote.
        for run in commands.chunk_by(|before, after| dispatches(before) && dispatches(after)) {
            if let [Command::Clear(range)] = run {
                encoder.clear_buffer(&range.buffer.0, range.offset, Some(range.bytes));
                continue;
            }
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            for command in run {
                if let Command::Dispatch { kernel, params, slots, workgroups } = command {
                    self.dispatch(&mut pass, *kernel, params, slots, *workgroups)?;
                }
            }
        }
        self.queue.submit([encoder.finish()]);
        Ok(())
    }

    fn dispatch(
        &self,
        pass: &mut wgpu::ComputePass<'_>,
        kernel: Kernel,
        params: &Binding<WgpuBuffer>,
        slots: &[(Slot, Binding<WgpuBuffer>)],
        workgroups: u32,
    ) -> Result<(), Error> {
        let mut entries = vec![entry(0, params)?];
        for wanted in kernel.slots() {
            let Some((_, binding)) = slots.iter().find(|(slot, _)| slot == wanted) else {
                return Err(Error::Misuse { what: format!("{} lacks its {wanted:?}", kernel.name()) });
            };
            entries.push(entry(*wanted as u32, binding)?);
        }
        let mut pipelines = self.pipelines.borrow_mut();
        let Pipeline { pipeline, layout } = match pipelines.entry(kernel) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(place) => place.insert(self.compile(kernel)),
        };
        let group =
            self.device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout, entries: &entries });
        let (x, y) = dimensions(workgroups, self.limits.workgroups);
        pass.set_pipeline(pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(x, y, 1);
        Ok(())
    }

    fn compile(&self, kernel: Kernel) -> Pipeline {
        let module = self.device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some(kernel.name()),
            source: wgpu::ShaderSource::Wgsl(kernel.source().into()),
        });
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(kernel.name()),
            layout: None,
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        let layout = pipeline.get_bind_group_layout(0);
        Pipeline { pipeline, layout }
    }

    /// A buffer that the host can read; the last one, if it is large enough.
    fn staging(&self, bytes: u64) -> wgpu::Buffer {
        let kept = self.staging.take().filter(|buffer| buffer.size() >= bytes);
        kept.unwrap_or_else(|| staging(&self.device, bytes.max(1024)))
    }

    /// Copies a range, or zeros, to where the host can read it, and waits. Only a lost device fails to map without saying why.
    async fn fetch(&self, source: Option<(&WgpuBuffer, u64)>, bytes: u64) -> Result<Vec<u8>, Error> {
        self.alive()?;
        let reply = Arc::<Reply>::default();
        let staging = self.scoped(|| Ok(self.staging(bytes)))?;
        self.scoped(|| {
            let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            match source {
                Some((buffer, offset)) => encoder.copy_buffer_to_buffer(&buffer.0, offset, &staging, 0, bytes),
                None => encoder.clear_buffer(&staging, 0, Some(bytes)),
            }
            self.queue.submit([encoder.finish()]);
            Ok(())
        })?;
        // Of a lost device it may be said that its buffers are not valid.
        let told = Arc::clone(&reply);
        let map = || staging.map_async(wgpu::MapMode::Read, 0..bytes, move |mapped| told.give(mapped.is_ok()));
        within_scopes(&self.device, map);
        #[cfg(not(target_arch = "wasm32"))]
        {
            self.poll(wgpu::PollType::wait_indefinitely());
            reply.give(false);
        }
        let mapped = std::future::poll_fn(|context| reply.poll(context)).await;
        let kept = self.kept_errors().await;
        self.alive()?;
        kept?;
        if !mapped {
            self.faults.lose("it does not answer any more".into());
            return self.alive().map(|()| Vec::new());
        }
        let view = staging.get_mapped_range(0..bytes).map_err(|error| Error::Gpu { message: error.to_string() })?;
        let copy = view.to_vec();
        drop(view);
        staging.unmap();
        self.staging.replace(Some(staging));
        Ok(copy)
    }
}

fn within_scopes<T>(device: &wgpu::Device, work: impl FnOnce() -> T) -> (T, Vec<Answer>) {
    let scopes: Vec<_> = FILTERS.iter().map(|filter| device.push_error_scope(*filter)).collect();
    let done = work();
    let answers = scopes.into_iter().rev().map(|scope| -> Answer { Box::pin(scope.pop()) }).collect();
    (done, answers)
}

fn staging(device: &wgpu::Device, size: u64) -> wgpu::Buffer {
    let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
    device.create_buffer(&wgpu::BufferDescriptor { label: Some("pulse read"), size, usage, mapped_at_creation: false })
}

fn watch_loss(device: &wgpu::Device, faults: &Arc<Faults>) {
    let faults = Arc::clone(faults);
    device.set_device_lost_callback(move |reason, message| {
        faults.lose(if message.is_empty() { format!("{reason:?}") } else { message });
    });
}

#[cfg(target_arch = "wasm32")]
fn has_browser_globals() -> bool {
    let global = js_sys::global();
    ["Window", "WorkerGlobalScope"].iter().any(|name| js_sys::Reflect::has(&global, &(*name).into()).unwrap_or(false))
}

fn entry(binding: u32, range: &Binding<WgpuBuffer>) -> Result<wgpu::BindGroupEntry<'_>, Error> {
    let Some(size) = NonZeroU64::new(range.bytes) else {
        return Err(Error::Misuse { what: "a GPU binding of no bytes".into() });
    };
    let buffer = wgpu::BufferBinding { buffer: &range.buffer.0, offset: range.offset, size: Some(size) };
    Ok(wgpu::BindGroupEntry { binding, resource: wgpu::BindingResource::Buffer(buffer) })
}

impl Port for WgpuPort {
    type Buffer = WgpuBuffer;

    fn limits(&self) -> DeviceLimits {
        self.limits
    }

    fn size(&self, buffer: &WgpuBuffer) -> u64 {
        buffer.0.size()
    }

    fn usable(&self, buffer: &WgpuBuffer) -> bool {
        buffer.0.usage().contains(usages(Usage::Storage))
    }

    fn create(&self, label: &'static str, bytes: u64, usage: Usage) -> Result<WgpuBuffer, Error> {
        self.alive()?;
        if bytes > self.limits.buffer_bytes {
            return Err(Error::OutOfMemory { message: format!("{label}: {bytes} bytes") });
        }
        let (size, usage) = (bytes, usages(usage));
        let descriptor = wgpu::BufferDescriptor { label: Some(label), size, usage, mapped_at_creation: false };
        self.scoped(|| Ok(WgpuBuffer(self.device.create_buffer(&descriptor))))
    }

    fn destroy(&self, buffer: &WgpuBuffer) {
        buffer.0.destroy();
    }

    fn write(&self, buffer: &WgpuBuffer, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.alive()?;
        check_range(buffer.0.size(), offset, bytes.len() as u64)?;
        self.scoped(|| {
            self.queue.write_buffer(&buffer.0, offset, bytes);
            Ok(())
        })
    }

    fn submit(&self, commands: &[Command<WgpuBuffer>]) -> Result<(), Error> {
        self.alive()?;
        self.scoped(|| self.encode(commands))
    }

    async fn read(&self, buffer: &WgpuBuffer, offset: u64, bytes: u64) -> Result<Vec<u8>, Error> {
        check_range(buffer.0.size(), offset, bytes)?;
        if bytes == 0 {
            return self.settle().await.map(|()| Vec::new());
        }
        self.fetch(Some((buffer, offset)), bytes).await
    }

    async fn settle(&self) -> Result<(), Error> {
        self.fetch(None, 4).await.map(|_| ())
    }
}

fn usages(usage: Usage) -> wgpu::BufferUsages {
    let data = wgpu::BufferUsages::COPY_DST;
    match usage {
        Usage::Storage => data | wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC,
        Usage::Uniform => data | wgpu::BufferUsages::UNIFORM,
    }
}
