//! A device is believed only once a kernel has computed on it: some adapters accept every call and do nothing.

use super::kernels::{Kernel, Params, Slot, Storage};
use super::port::{Binding, Command, Port, Usage};
use crate::error::Error;
use pulse_format::Salt;

const WORDS: [u32; 5] = [0x9e37_79b1, 0x0000_0001, 0xffff_fffe, 0x85eb_ca77, 0x1234_5678];
const SALT: Salt = Salt { a: 0x243f_6a89, b: 0x85a3_08d3 };

/// Fingerprints a few words on the device and compares with what they must give.
///
/// # Errors
/// [`Error::NoAdapter`], whatever fails: a device that refuses the first thing asked of it is of no use.
pub async fn check<P: Port>(port: &P) -> Result<(), Error> {
    let refused = |message: String| Error::NoAdapter { message };
    let found = survey(port).await.map_err(|error| refused(error.to_string()))?;
    let mut expected = [0u32; 2];
    for (index, word) in (0..).zip(WORDS) {
        let sum = SALT.word(word, index);
        expected = [expected[0].wrapping_add(sum.a), expected[1].wrapping_add(sum.b)];
    }
    let expected = expected.map(u32::to_le_bytes);
    if found != expected.as_flattened() {
        return Err(refused("the adapter does not compute what it is given (a null backend?)".into()));
    }
    Ok(())
}

/// The fingerprint that the device computes.
async fn survey<P: Port>(port: &P) -> Result<Vec<u8>, Error> {
    let cells = WORDS.len() as u32;
    let params = Params { cells, salt_a: SALT.a, salt_b: SALT.b, ..Params::default() };
    let binding = |buffer: &P::Buffer, bytes: u64| Binding { buffer: buffer.clone(), offset: 0, bytes };
    let bytes = 4 * u64::from(cells);
    let weights = port.create("pulse canary", bytes, Usage::Storage)?;
    let sums = port.create("pulse canary", 8, Usage::Storage)?;
    let table = port.create("pulse canary", 4, Usage::Storage)?;
    let uniform = params.to_bytes();
    let length = uniform.len() as u64;
    let params = port.create("pulse canary", length, Usage::Uniform)?;
    port.write(&weights, 0, WORDS.map(u32::to_le_bytes).as_flattened())?;
    port.write(&params, 0, &uniform)?;
    port.submit(&[Command::Dispatch {
        kernel: Kernel::Survey(Storage::Packed32),
        params: binding(&params, length),
        slots: vec![
            (Slot::Weights, binding(&weights, bytes)),
            (Slot::Table, binding(&table, 4)),
            (Slot::Sums, binding(&sums, 8)),
        ],
        workgroups: 1,
    }])?;
    let found = port.read(&sums, 0, 8).await;
    for buffer in [&weights, &sums, &table, &params] {
        port.destroy(buffer);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::{DeviceLimits, TwinPort};
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn the_twin_passes() {
        let port = TwinPort::new(DeviceLimits::DEFAULT);
        let checked = pin!(check(&port)).poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(checked, Poll::Ready(Ok(())));
    }
}
