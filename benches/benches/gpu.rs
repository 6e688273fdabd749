//! Question: what does it cost a device to take a patch in place, beside the ways to update weights without one?
//!
//! Data: step 25 -> 26 of both real chains (`--chain`), or the committed excerpt: BF16, two cells a word, a buffer a tensor. Counted
//! are bytes written and read by the host, weights read and written by kernels, dispatches and submits. Times are of whatever adapter there is, a
//! software one in CI: they compare the lines of one run, nothing more. Every result is read back and compared bit for bit.

use clap::Parser;
use pulse_applier_wasm::NoHooks;
use pulse_applier_wasm::Options;
use pulse_applier_wasm::gpu::kernels::{CHANGES_PER_WORKGROUP, Kernel, PARAMS_BYTES, Params, Slot, Storage};
use pulse_applier_wasm::gpu::port::{Binding, Command, Port, Usage};
use pulse_applier_wasm::gpu::wgpu_port::{OpenOptions, WgpuBuffer, WgpuPort};
use pulse_applier_wasm::gpu::{Element, Layout, Session};
use pulse_benches::{PairFiles, excerpt_pair, real_pairs};
use pulse_encoder::{Checkpoint, EncodeOptions, ProfileChoice, Silent, encode};
use pulse_format::Tensor;
use std::path::PathBuf;
use std::time::Instant;

/// What updating weights on a GPU costs.
#[derive(Debug, Parser)]
struct Arguments {
    /// Folder with the rebuilt chains (`cargo xtask chain`)
    #[arg(long, env = "PULSE_CHAIN")]
    chain: Option<PathBuf>,
    /// Passed by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

/// A tensor on both sides.
struct Weight {
    tensor: Tensor,
    base: Vec<u8>,
    target: Vec<u8>,
}

impl Weight {
    /// The words that differ, and their new values.
    fn changed_words(&self) -> impl Iterator<Item = (u32, u32)> {
        let words = |bytes: &[u8]| bytes.chunks(4).map(padded).collect::<Vec<_>>();
        let pairs = words(&self.base).into_iter().zip(words(&self.target)).zip(0u32..);
        pairs.filter(|((base, target), _)| base != target).map(|((_, target), index)| (index, target))
    }

    fn cells(&self) -> u64 {
        self.base.len() as u64 / 2
    }
}

fn padded(bytes: &[u8]) -> u32 {
    let mut word = [0; 4];
    word[..bytes.len()].copy_from_slice(bytes);
    u32::from_le_bytes(word)
}

/// One line of the table.
#[derive(Debug, Default)]
struct Cost {
    written: u64,
    read: u64,
    /// Bytes of weights that kernels read, in passes over them.
    weights_read: u64,
    dispatches: u64,
    submits: u64,
    seconds: f64,
}

fn main() {
    let arguments = Arguments::parse();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pairs = match &arguments.chain {
        Some(chain) => real_pairs(chain),
        None => {
            println!(
                "SKIPPED: the full chains (name them with --chain or PULSE_CHAIN; `cargo xtask chain` builds them)"
            );
            vec![excerpt_pair(folder.path())]
        }
    };
    let port = pollster::block_on(WgpuPort::open(OpenOptions::default())).unwrap_or_else(|error| {
        panic!("{error}: a GPU or a software one is needed (Debian: mesa-vulkan-drivers)");
    });
    for pair in &pairs {
        bench(pair, &port);
    }
}

fn bench(pair: &PairFiles, port: &WgpuPort) {
    let open = |path: &std::path::Path| Checkpoint::open(path).expect("a bench file");
    let checkpoints = (open(&pair.base), open(&pair.target));
    let patch = |profile| {
        let options = EncodeOptions { profile, ..EncodeOptions::default() };
        let patch = encode(&checkpoints.0, &checkpoints.1, &options, &Silent).expect("the pair encodes");
        patch.into_bytes().expect("the patch fits memory")
    };
    let weights = weights(&checkpoints.0, &checkpoints.1);
    let cells: u64 = weights.iter().map(Weight::cells).sum();
    let words: u64 = weights.iter().map(|weight| weight.changed_words().count() as u64).sum();
    let contextual = patch(ProfileChoice::Contextual);
    let absolute = patch(ProfileChoice::Absolute);
    println!("\n{}: {cells} cells in {} buffers, {words} changed words\n", pair.name, weights.len());
    println!(
        "| way | fetched | bytes written | B/word | bytes read back | weights read | dispatches | submits | seconds |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let report = |way: &str, fetched: u64, cost: &Cost| {
        let Cost { written, read, weights_read, dispatches, submits, seconds } = cost;
        let per_word = *written as f64 / words as f64;
        println!(
            "| {way} | {fetched} | {written} | {per_word:.2} | {read} | {weights_read} | {dispatches} | {submits} | {seconds:.3} |"
        );
    };
    let dense = 2 * cells;
    report("patch, contextual", contextual.len() as u64, &by_patch(port, &weights, &contextual, true));
    report("patch, absolute", absolute.len() as u64, &by_patch(port, &weights, &absolute, false));
    report("whole changed tensors", dense, &by_tensor(port, &weights));
    report("a write per changed word", 8 * words, &by_word(port, &weights));
    report("scatter of (index, word)", 8 * words, &by_scatter(port, &weights));
}

fn weights(base: &Checkpoint, target: &Checkpoint) -> Vec<Weight> {
    let targets = target.by_name();
    let weight = |(name, stored): (&str, &pulse_encoder::StoredTensor)| Weight {
        tensor: stored.tensor.clone(),
        base: base.bytes(stored).to_vec(),
        target: target.bytes(targets[name]).to_vec(),
    };
    base.by_name().into_iter().map(|(name, stored)| weight((name, stored))).collect()
}

/// The base in buffers of their own.
fn upload(port: &WgpuPort, weights: &[Weight]) -> Vec<WgpuBuffer> {
    let buffer = |weight: &Weight| {
        let mut bytes = weight.base.clone();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        let buffer = port.create("weights", bytes.len() as u64, Usage::Storage).expect("memory for the base");
        port.write(&buffer, 0, &bytes).expect("the base fits");
        buffer
    };
    let buffers = weights.iter().map(buffer).collect();
    pollster::block_on(port.settle()).expect("the base is there");
    buffers
}

fn check(port: &WgpuPort, weights: &[Weight], buffers: &[WgpuBuffer], way: &str) {
    for (weight, buffer) in weights.iter().zip(buffers) {
        let found = pollster::block_on(port.read(buffer, 0, port.size(buffer))).expect("the result is read");
        assert!(found[..weight.target.len()] == weight.target, "{way}: {} is the target", weight.tensor.name);
        port.destroy(buffer);
    }
}

fn by_patch(port: &WgpuPort, weights: &[Weight], patch: &[u8], contextual: bool) -> Cost {
    let buffers = upload(port, weights);
    let mut session = Session::new(port, Options::default());
    let layout = Layout { element: Element::Packed, ..Layout::default() };
    for (weight, buffer) in weights.iter().zip(&buffers) {
        session.bind(weight.tensor.clone(), buffer, layout).expect("the tensor fits its buffer");
    }
    let start = Instant::now();
    let applied = pollster::block_on(session.apply(patch, &NoHooks)).expect("the patch applies");
    let seconds = start.elapsed().as_secs_f64();
    drop(session);
    check(port, weights, &buffers, "patch");
    let counts = applied.device.unwrap();
    let dense: u64 = weights.iter().map(|weight| weight.base.len() as u64).sum();
    // Base and target are fingerprinted whole. To find a rank, at most a block is read, half of it in the mean.
    let places = if contextual { applied.changes * 1024 } else { 0 };
    Cost {
        written: counts.uploaded_bytes,
        read: counts.read_bytes,
        weights_read: 2 * dense + places,
        dispatches: counts.dispatches,
        submits: counts.submits,
        seconds,
    }
}

fn by_tensor(port: &WgpuPort, weights: &[Weight]) -> Cost {
    let buffers = upload(port, weights);
    let mut cost = Cost::default();
    let start = Instant::now();
    for (weight, buffer) in weights.iter().zip(&buffers).filter(|(weight, _)| weight.base != weight.target) {
        let mut bytes = weight.target.clone();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        port.write(buffer, 0, &bytes).expect("the tensor fits");
        cost.written += bytes.len() as u64;
    }
    pollster::block_on(port.settle()).expect("all is written");
    (cost.submits, cost.seconds) = (1, start.elapsed().as_secs_f64());
    check(port, weights, &buffers, "whole tensors");
    cost
}

fn by_word(port: &WgpuPort, weights: &[Weight]) -> Cost {
    let buffers = upload(port, weights);
    let changes: Vec<Vec<(u32, u32)>> = weights.iter().map(|weight| weight.changed_words().collect()).collect();
    let mut cost = Cost::default();
    let start = Instant::now();
    for (changes, buffer) in changes.iter().zip(&buffers) {
        for (index, word) in changes {
            port.write(buffer, 4 * u64::from(*index), &word.to_le_bytes()).expect("the word fits");
            cost.written += 4;
        }
    }
    pollster::block_on(port.settle()).expect("all is written");
    (cost.submits, cost.seconds) = (1, start.elapsed().as_secs_f64());
    check(port, weights, &buffers, "a write per word");
    cost
}

/// Expanded pairs, as other systems upload them, scattered by our kernel over cells of one word.
fn by_scatter(port: &WgpuPort, weights: &[Weight]) -> Cost {
    let buffers = upload(port, weights);
    let changes: Vec<Vec<(u32, u32)>> = weights.iter().map(|weight| weight.changed_words().collect()).collect();
    let start = Instant::now();
    let (mut words, mut params, mut commands) = (Vec::new(), Vec::new(), Vec::new());
    let scratch = |bytes: usize, usage| port.create("scratch", bytes as u64, usage).expect("memory for the pairs");
    let pairs: usize = changes.iter().map(Vec::len).sum();
    let lists = scratch((8 * pairs).max(4), Usage::Storage);
    let slots = scratch(weights.len() * PARAMS_BYTES as usize, Usage::Uniform);
    for ((changes, buffer), weight) in
        changes.iter().zip(&buffers).zip(weights).filter(|((changes, _), _)| !changes.is_empty())
    {
        let (start, count) = (words.len() as u32, changes.len() as u32);
        words.extend(changes.iter().map(|(index, _)| *index));
        words.extend(changes.iter().map(|(_, word)| *word));
        let cells = weight.base.len().div_ceil(4) as u32;
        let at = Params { cells, changes: start, count, values: start + count, ..Params::default() };
        let offset = params.len() as u64;
        params.extend(at.to_bytes());
        let whole = |buffer: &WgpuBuffer| Binding { buffer: buffer.clone(), offset: 0, bytes: port.size(buffer) };
        commands.push(Command::Dispatch {
            kernel: Kernel::Scatter(Storage::Packed32),
            params: Binding { buffer: slots.clone(), offset, bytes: PARAMS_BYTES },
            slots: vec![(Slot::Weights, whole(buffer)), (Slot::Changes, whole(&lists))],
            workgroups: count.div_ceil(CHANGES_PER_WORKGROUP),
        });
    }
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    port.write(&lists, 0, &bytes).expect("the pairs fit");
    port.write(&slots, 0, &params).expect("the parameters fit");
    port.submit(&commands).expect("the scatter runs");
    pollster::block_on(port.settle()).expect("all is written");
    let seconds = start.elapsed().as_secs_f64();
    check(port, weights, &buffers, "scatter");
    [lists, slots].iter().for_each(|buffer| port.destroy(buffer));
    let weights_read = 4 * pairs as u64;
    let written = (bytes.len() + params.len()) as u64;
    Cost { written, read: 0, weights_read, dispatches: commands.len() as u64, submits: 1, seconds }
}
