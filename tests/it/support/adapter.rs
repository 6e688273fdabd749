//! The GPU that tests run on: lavapipe, where there is no other.

use pulse_applier_wasm::gpu::WgpuPort;
use pulse_applier_wasm::gpu::wgpu_port::OpenOptions;

/// A device of its own. None only where `PULSE_SKIP_GPU` is 1: a missing adapter fails the test.
pub(crate) fn open() -> Option<WgpuPort> {
    if std::env::var_os("PULSE_SKIP_GPU").is_some_and(|value| value == "1") {
        eprintln!("PULSE_SKIP_GPU=1: THIS TEST DOES NOT TEST ANYTHING");
        return None;
    }
    match pollster::block_on(WgpuPort::open(OpenOptions::default())) {
        Ok(port) => Some(port),
        Err(error) => {
            panic!("{error}\nInstall mesa-vulkan-drivers, or set PULSE_SKIP_GPU=1 to go without these tests.")
        }
    }
}
