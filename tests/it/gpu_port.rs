//! What the port to wgpu answers when things go wrong: errors by name, no panic, and the owner's handlers left alone.

use crate::support::adapter;
use pulse_applier_wasm::Error;
use pulse_applier_wasm::gpu::kernels::{Kernel, PARAMS_BYTES, Slot};
use pulse_applier_wasm::gpu::port::{Binding, Command, Usage};
use pulse_applier_wasm::gpu::wgpu_port::{WgpuBuffer, wgpu};
use pulse_applier_wasm::gpu::{DeviceLimits, Port, WgpuPort};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One call of a port, on a buffer of 64 bytes.
type Call = fn(&WgpuPort, &WgpuBuffer) -> Result<(), Error>;

const CALLS: [(&str, Call); 5] = [
    ("create", |port, _| port.create("test", 64, Usage::Storage).map(|_| ())),
    ("write", |port, buffer| port.write(buffer, 4, &[1; 8])),
    ("submit", |port, buffer| port.submit(&[clear(buffer, 0, 64)])),
    ("read", |port, buffer| pollster::block_on(port.read(buffer, 0, 64)).map(|_| ())),
    ("settle", |port, _| pollster::block_on(port.settle())),
];

fn clear(buffer: &WgpuBuffer, offset: u64, bytes: u64) -> Command<WgpuBuffer> {
    Command::Clear(Binding { buffer: buffer.clone(), offset, bytes })
}

fn prefix(params: &WgpuBuffer, slots: &[(Slot, &WgpuBuffer, u64)]) -> Command<WgpuBuffer> {
    let binding = |buffer: &WgpuBuffer, bytes| Binding { buffer: buffer.clone(), offset: 0, bytes };
    Command::Dispatch {
        kernel: Kernel::Prefix,
        params: binding(params, PARAMS_BYTES),
        slots: slots.iter().map(|(slot, buffer, bytes)| (*slot, binding(buffer, *bytes))).collect(),
        workgroups: 1,
    }
}

fn read(port: &WgpuPort, buffer: &WgpuBuffer, offset: u64, bytes: u64) -> Result<Vec<u8>, Error> {
    pollster::block_on(port.read(buffer, offset, bytes))
}

fn assert_lost(result: &Result<(), Error>, call: &str) {
    assert!(matches!(result, Err(Error::DeviceLost { .. })), "{call}: {result:?}");
}

/// Its own device, or a caller's.
fn check_loss(adopt: bool) {
    for (first, call) in CALLS {
        let Some(mut port) = adapter::open() else { return };
        if adopt {
            port = WgpuPort::adopt(port.device().clone(), port.queue().clone());
        }
        let buffer = port.create("test", 64, Usage::Storage).unwrap();
        port.device().destroy();
        assert_lost(&call(&port, &buffer), first);
        for (name, call) in CALLS {
            assert_lost(&call(&port, &buffer), name);
        }
        port.destroy(&buffer);
        let adopted = WgpuPort::adopt(port.device().clone(), port.queue().clone());
        assert_lost(&call(&adopted, &buffer), first);
    }
}

#[test]
fn every_call_on_a_lost_device_of_ours_says_so() {
    check_loss(false);
}

#[test]
fn every_call_on_a_lost_device_of_a_caller_says_so() {
    check_loss(true);
}

#[test]
fn what_a_device_refuses_is_an_error_and_it_goes_on() {
    let Some(port) = adapter::open() else { return };
    let params = port.create("test", PARAMS_BYTES, Usage::Uniform).unwrap();
    let storage = port.create("test", 64, Usage::Storage).unwrap();
    let other = port.create("test", 64, Usage::Storage).unwrap();
    let refused = |command| port.submit(&[command]).unwrap_err();
    let lacking = refused(prefix(&params, &[(Slot::Table, &storage, 64)]));
    assert_eq!(lacking, Error::Misuse { what: "prefix lacks its Sums".into() });
    let empty = refused(prefix(&params, &[(Slot::Table, &storage, 64), (Slot::Sums, &other, 0)]));
    assert_eq!(empty, Error::Misuse { what: "a GPU binding of no bytes".into() });
    let past = refused(prefix(&params, &[(Slot::Table, &storage, 64), (Slot::Sums, &other, 68)]));
    assert!(matches!(past, Error::Gpu { .. }), "{past:?}");
    assert!(matches!(refused(clear(&storage, 32, 64)), Error::Gpu { .. }));
    assert!(matches!(read(&port, &params, 0, 4), Err(Error::Gpu { .. })), "it cannot be copied from");
    for (offset, bytes) in [(2, 4), (0, 6), (0, 68), (64, 4), (u64::MAX - 3, 4)] {
        assert!(matches!(read(&port, &storage, offset, bytes), Err(Error::Misuse { .. })), "{offset}, {bytes}");
    }
    for (offset, bytes) in [(2, 4), (0, 6), (64, 4)] {
        assert!(matches!(port.write(&storage, offset, &[0; 6][..bytes]), Err(Error::Misuse { .. })));
    }

    port.submit(&[prefix(&params, &[(Slot::Table, &storage, 64), (Slot::Sums, &other, 64)])]).unwrap();
    port.write(&storage, 8, &[1, 2, 3, 4]).unwrap();
    assert_eq!(read(&port, &storage, 4, 12).unwrap(), [0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0]);
    assert_eq!(read(&port, &storage, 8, 0).unwrap(), [0; 0]);
}

#[test]
fn reads_of_all_sizes() {
    let Some(port) = adapter::open() else { return };
    let bytes: Vec<u8> = (0..8192u32).map(|index| ((index * 7) >> 3) as u8).collect();
    let buffer = port.create("test", 8192, Usage::Storage).unwrap();
    port.write(&buffer, 0, &bytes).unwrap();
    for (offset, length) in [(4, 8), (0, 8192), (16, 1000), (8188, 4), (0, 4096)] {
        let end = offset + length;
        assert_eq!(read(&port, &buffer, offset as u64, length as u64).unwrap(), bytes[offset..end]);
    }
}

#[test]
fn no_buffer_is_larger_than_the_limits() {
    let Some(port) = adapter::open() else { return };
    let too_large = port.create("test", port.limits().buffer_bytes + 4, Usage::Storage);
    assert!(matches!(too_large, Err(Error::OutOfMemory { .. })), "{too_large:?}");
    let port = port.with_limits(DeviceLimits { buffer_bytes: 1024, ..DeviceLimits::DEFAULT });
    assert_eq!(port.limits().buffer_bytes, 1024);
    assert!(port.create("test", 1024, Usage::Storage).is_ok());
    assert!(matches!(port.create("test", 1028, Usage::Storage), Err(Error::OutOfMemory { .. })));
}

#[test]
fn a_buffer_that_is_none_is_refused_wherever_it_is_used() {
    let Some(port) = adapter::open() else { return };
    let device = port.device();
    let usage = wgpu::BufferUsages::STORAGE;
    let size = device.limits().max_buffer_size + 4;
    let scope = device.push_error_scope(wgpu::ErrorFilter::Validation);
    let buffer = device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false });
    assert!(pollster::block_on(scope.pop()).is_some());
    let buffer = port.buffer(buffer);
    assert!(!port.usable(&buffer));
    assert_eq!(port.size(&buffer), size);
    for (name, call) in &CALLS[1..4] {
        let result = call(&port, &buffer);
        assert!(matches!(result, Err(Error::Gpu { .. })), "{name}: {result:?}");
    }
    assert_eq!(pollster::block_on(port.settle()), Ok(()));
}

#[test]
fn a_caller_keeps_its_handlers() {
    let Some(opened) = adapter::open() else { return };
    let (device, queue) = (opened.device().clone(), opened.queue().clone());
    let (errors, losses) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, lost) = (Arc::clone(&errors), Arc::clone(&losses));
    device.on_uncaptured_error(Arc::new(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    }));
    device.set_device_lost_callback(move |_, _| {
        lost.fetch_add(1, Ordering::Relaxed);
    });
    let port = WgpuPort::adopt(device.clone(), queue);
    let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC;
    let descriptor = wgpu::BufferDescriptor { label: None, size: 64, usage, mapped_at_creation: false };
    let buffer = port.buffer(device.create_buffer(&descriptor));
    assert!(port.usable(&buffer));
    assert_eq!(buffer.as_wgpu().size(), 64);
    assert!(port.submit(&[clear(&buffer, 0, 128)]).is_err());
    assert_eq!(errors.load(Ordering::Relaxed), 0, "our errors are not its");
    device.destroy();
    assert_lost(&pollster::block_on(port.settle()), "settle");
    assert_eq!(losses.load(Ordering::Relaxed), 1);
}

/// What a caller does wrong on a device of ours is not ours, but is not lost either.
#[test]
fn errors_outside_our_calls_come_with_the_next() {
    let Some(port) = adapter::open() else { return };
    let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::STORAGE;
    let _ = port.device().create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: 64,
        usage,
        mapped_at_creation: false,
    });
    assert!(matches!(pollster::block_on(port.settle()), Err(Error::Gpu { .. })));
    assert_eq!(pollster::block_on(port.settle()), Ok(()));
}
