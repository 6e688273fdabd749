//! Bytes a change and seconds of every format, for two real checkpoints.
//!
//! `cargo run --release -p pulse-interop --example sizes -- BASE.safetensors TARGET.safetensors [ROUNDS]`
//!
//! Every patch is decoded and applied, and both results compared with the target; times are the best of ROUNDS (3).

use std::error::Error;
use std::time::Instant;

use pulse_interop::{Checkpoint, Digest, Limits, PatchFormat, SparsePatch, Steps, Tensor, all, pulsept1::PulsePt1};
use safetensors::{Dtype, SafeTensors};

/// Name, shape and cells of each tensor of a file.
type Owned = Vec<(String, Vec<u64>, Vec<u16>)>;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (base, target, rounds) = match &arguments[..] {
        [base, target] => (base, target, 3),
        [base, target, rounds] => (base, target, rounds.parse::<u32>()?.max(1)),
        _ => return Err("usage: sizes BASE.safetensors TARGET.safetensors [ROUNDS]".into()),
    };
    let (base, target) = (load(base)?, load(target)?);
    let (base, target) = (view(&base)?, view(&target)?);

    let steps = Steps { base: 0, target: 1 };
    let (seconds, wanted) = best(rounds, || SparsePatch::diff(steps, &base, &target));
    let wanted = wanted?;
    let changes = wanted.change_count();
    println!("{changes} of {} cells changed; the diff alone takes {seconds:.3} s", base.cell_count());
    let mut formats = all();
    formats.push(Box::new(PulsePt1::v3().with_base_digest(Digest::of_state(&base))));

    println!("format            bytes  B/change  encode s  decode s   apply s");
    for format in &formats {
        let (encode, bytes) = best(rounds, || format.encode(steps, &base, &target));
        let bytes = bytes?;
        let (decode, patch) = best(rounds, || format.decode(&bytes, &base, &Limits::default()));
        if patch?.tensors != wanted.tensors {
            return Err(format!("{} decodes to something else", format.name()).into());
        }
        let apply = time_apply(format.as_ref(), &bytes, &base, &target, rounds)?;
        let per_change = bytes.len() as f64 / changes as f64;
        let (name, len) = (format.name(), bytes.len());
        println!("{name:<12} {len:>10}  {per_change:>8.3}  {encode:>8.3}  {decode:>8.3}  {apply:>8.3}");
    }
    println!("The last line is pulsept1-v3 for callers that keep the digest of their base.");
    Ok(())
}

fn time_apply(
    format: &dyn PatchFormat,
    bytes: &[u8],
    base: &Checkpoint<'_>,
    target: &Checkpoint<'_>,
    rounds: u32,
) -> Result<f64, Box<dyn Error>> {
    let mut least = f64::INFINITY;
    let mut cells = base.to_cells();
    for _ in 0..rounds {
        for (cells, tensor) in cells.iter_mut().zip(base.tensors()) {
            cells.copy_from_slice(tensor.cells);
        }
        let (seconds, outcome) = best(1, || format.apply(bytes, base, &mut cells, &Limits::default()));
        outcome?;
        least = least.min(seconds);
    }
    if cells.iter().zip(target.tensors()).any(|(cells, tensor)| cells != tensor.cells) {
        return Err(format!("{} applies to something else", format.name()).into());
    }
    Ok(least)
}

/// Least seconds of some rounds, and the last result.
fn best<T>(rounds: u32, mut work: impl FnMut() -> T) -> (f64, T) {
    let mut timed = || {
        let start = Instant::now();
        let result = work();
        (start.elapsed().as_secs_f64(), result)
    };
    let mut least = timed();
    for _ in 1..rounds {
        let (seconds, result) = timed();
        least = (least.0.min(seconds), result);
    }
    least
}

fn load(path: &str) -> Result<Owned, Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let mut tensors = Vec::new();
    for (name, tensor) in SafeTensors::deserialize(&bytes)?.tensors() {
        if tensor.dtype() != Dtype::BF16 {
            return Err(format!("{name} is not BF16").into());
        }
        let cells = tensor.data().as_chunks().0.iter().map(|&pair| u16::from_le_bytes(pair)).collect();
        tensors.push((name, tensor.shape().iter().map(|&extent| extent as u64).collect(), cells));
    }
    Ok(tensors)
}

fn view(tensors: &Owned) -> Result<Checkpoint<'_>, pulse_interop::Error> {
    let views = tensors.iter().map(|(name, shape, cells)| Tensor { name, shape: shape.clone(), cells });
    Checkpoint::new(views.collect())
}
