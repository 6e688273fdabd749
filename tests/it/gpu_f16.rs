//! BF16 tensors in buffers of f16: every bit pattern, cells on their way in and out of what f16 holds, and engines that write.

use crate::support::adapter;
use crate::support::cells::{Pair, Random, TestTensor};
use crate::support::gpu::{Bound, TestPort, entry, on_every_port};
use pulse_applier_wasm::gpu::{DeviceLimits, Element, Layout, Session, TwinPort, WgpuPort, half};
use pulse_applier_wasm::{Applied, NoHooks, Options};
use pulse_encoder::{EncodeOptions, ProfileChoice};
use pulse_format::{Dtype, Step};
use pulse_tests::fixtures::{ChainName, ExcerptChain};
use safetensors::SafeTensors;

const F16: Layout = Layout { element: Element::F16, offset: 0, transposed: false, stride: None };
/// Bytes of a side table when it is made for nothing.
const SMALLEST_TABLE: u64 = 8 * (64 + 1);

fn cells(bits: impl IntoIterator<Item = u16>) -> Vec<u8> {
    bits.into_iter().flat_map(u16::to_le_bytes).collect()
}

fn bf16(name: &str, shape: &[u64], base: Vec<u8>, target: Vec<u8>) -> TestTensor {
    TestTensor::new(name, Dtype::Bf16, shape, base, target)
}

/// Every BF16 there is, and any BF16 in its place.
fn every_pattern_pair() -> Pair {
    let mut random = Random::new(11);
    let base = cells(0..=u16::MAX);
    let target = cells((0..=u16::MAX).map(|bits| if random.below(8) == 0 { bits } else { random.word() as u16 }));
    let zeros = vec![0; base.len()];
    Pair::new([bf16("from every", &[256, 256], base.clone(), target), bf16("to every", &[256, 256], zeros, base)])
}

fn every_pattern<P: TestPort>() {
    let pair = every_pattern_pair();
    for profile in [ProfileChoice::Contextual, ProfileChoice::Absolute] {
        let patch = pair.encode(&EncodeOptions { profile, seed: 3, ..EncodeOptions::default() });
        for layout in [F16, Layout { transposed: true, stride: Some(259), offset: 6, ..F16 }] {
            let mut bound = Bound::new(&pair, &layout, P::open(DeviceLimits::DEFAULT), Options::default());
            for _ in 0..if layout.transposed { 1 } else { 2 } {
                let applied = pollster::block_on(bound.session.apply(patch.as_slice(), &NoHooks)).unwrap();
                assert_eq!(applied.changes, pair.changes());
                assert!(bound.holds_target(), "{profile:?} {layout:?}");
                pollster::block_on(bound.session.undo(&NoHooks)).unwrap();
                assert!(bound.holds_base(), "{profile:?} {layout:?}");
            }
        }
    }
}

/// Applies the patch from one state to the next.
fn advance<P: TestPort>(bound: &mut Bound<P>, shape: &[u64], states: [&[u8]; 2], step: u64) -> Applied {
    let profile = if step.is_multiple_of(2) { ProfileChoice::Contextual } else { ProfileChoice::Absolute };
    let (base_step, target_step) = (Step(step), Step(step + 1));
    let pair = Pair::new([bf16("w", shape, states[0].to_vec(), states[1].to_vec())]);
    let patch = pair.encode(&EncodeOptions { profile, base_step, target_step, ..EncodeOptions::default() });
    let applied = pollster::block_on(bound.session.apply(patch.as_slice(), &NoHooks)).unwrap();
    assert!(bound.holds(|_| states[1]), "step {step}");
    applied
}

fn a_table_grows_and_is_cleared_out<P: TestPort>() {
    let shape = [64, 100];
    let mut random = Random::new(12);
    // 2^-16 and around: nothing is inexact at first.
    let mut state: Vec<u16> = (0..6400).map(|_| 0x3780 | random.word() as u16 & 0x807f).collect();
    let start = cells(state.iter().copied());
    let pair = Pair::new([bf16("w", &shape, start.clone(), start.clone())]);
    let mut bound = Bound::new(&pair, &F16, P::open(DeviceLimits::DEFAULT), Options::default());
    let (mut before, mut sizes) = (start.clone(), Vec::new());
    for step in 0..12 {
        // Ever more cells move; inexact ones become exact, and others inexact: tiny, huge, or halved until they vanish.
        for cell in &mut state {
            if random.below(40) < 1 + step {
                let noise = random.word() as u16;
                *cell = match random.below(6) {
                    0 => noise & 0x80ff,
                    1 => 0x4780 | noise & 0x807f,
                    2 => 0x3400 | noise & 0x80ff,
                    3 => 0x3780 | noise & 0x807f,
                    4 => noise & 0x8000,
                    _ => cell.wrapping_sub(0x80),
                };
            }
        }
        let after = cells(state.iter().copied());
        sizes.push(advance(&mut bound, &shape, [&before, &after], step as u64).device.unwrap().side_bytes);
        before = after;
    }
    assert!(sizes[0] < sizes[11] && sizes.is_sorted(), "{sizes:?}");
    // As if nothing had happened; then other cells need the places of the first.
    advance(&mut bound, &shape, [&before, &start], 12);
    assert_eq!(pollster::block_on(bound.session.exceptions("w")), Ok(vec![]));
    let last = advance(&mut bound, &shape, [&start, &before], 13).device.unwrap().side_bytes;
    assert!(last <= 8 * (2 * 8192 + 1), "{last} bytes: at most as many keys as cells, every other place free");
    assert_eq!(pollster::block_on(bound.session.undo(&NoHooks)), Ok(Step(13)));
    assert!(bound.holds(|_| start.as_slice()));
}

/// What an engine may do to one element: the cell's BF16, and bits to flip in its f16.
const WRITES: [(u16, u16, &str); 8] = [
    (0x3f80, 0x0001, "1 becomes a little more, which BF16 would round back to 1"),
    (0x3f80, 0x0008, "1 becomes the next BF16"),
    (0x358d, 0x0001, "a rounded cell becomes its neighbour"),
    (0x358d, 0x8000, "a rounded cell changes its sign"),
    (0x358d, 0x4000, "a rounded cell becomes large"),
    (0x4780, 0x0400, "an overflow becomes finite"),
    (0x4780, 0x0001, "an overflow becomes a NaN"),
    (0x3780, 0x0101, "a subnormal gets more bits than BF16 has"),
];

fn an_engine_that_wrote_is_found_out<P: TestPort>() {
    let base = cells(WRITES.iter().map(|(cell, _, _)| *cell).chain([0x3f80; 92]));
    let target = cells(
        (0..100).map(|cell| if cell == 60 { 0x3f81 } else { u16::from_le_bytes([base[2 * cell], base[2 * cell + 1]]) }),
    );
    let pair = Pair::new([bf16("w", &[10, 10], base, target)]);
    let patch = pair.encode(&EncodeOptions::default());
    let mut bound = Bound::new(&pair, &F16, P::open(DeviceLimits::DEFAULT), Options::default());
    let sound = pollster::block_on(bound.session.fingerprint(1)).unwrap();
    for (cell, (_, bits, what)) in WRITES.iter().enumerate() {
        let flip = |bound: &Bound<P>| (0..2).for_each(|byte| bound.flip(0, 2 * cell + byte, bits.to_le_bytes()[byte]));
        flip(&bound);
        let found = pollster::block_on(bound.session.fingerprint(1)).unwrap();
        assert_ne!(found, sound, "{what}");
        let error = pollster::block_on(bound.session.apply(patch.as_slice(), &NoHooks)).unwrap_err();
        assert_eq!((error.code(), bound.session.poisoned()), ("wrong_base", None), "{what}");
        flip(&bound);
        assert!(bound.holds_base(), "{what}");
    }
    pollster::block_on(bound.session.apply(patch.as_slice(), &NoHooks)).unwrap();
    assert!(bound.holds_target());
}

fn impossible_bindings_are_refused<P: TestPort>() {
    let tensor = bf16("w", &[10, 10], vec![0; 200], vec![0; 200]);
    let small = DeviceLimits { binding_bytes: 4 << 10, ..DeviceLimits::DEFAULT };
    let mut session = Session::new(P::open(small), Options::default());
    let buffer = session.port().filled(&[0; 4000]);
    let error = session.bind(entry(&tensor), &buffer, F16).unwrap_err();
    assert!(error.code() == "binding" && error.to_string().contains("bind_f16 takes the exceptions"), "{error}");
    for (exceptions, part) in [
        (&[(3, 1), (3, 2)][..], "do not ascend"),
        (&[(4, 1), (3, 2)], "do not ascend"),
        (&[(99, 1), (100, 2)], "no cell 100"),
        (&[(9, 0x3f80)], "f16 holds 0x3f80 exactly, but cell 9"),
        (&[(9, 0x8000)], "f16 holds 0x8000 exactly, but cell 9"),
    ] {
        let error = session.bind_f16(entry(&tensor), &buffer, F16, exceptions).unwrap_err();
        assert!(error.code() == "binding" && error.to_string().contains(part), "{error}");
    }
    let other = TestTensor::noise("h", Dtype::F16, &[10], 3, 2);
    let error = session.bind_f16(entry(&other), &buffer, F16, &[]).unwrap_err();
    assert!(error.to_string().contains("cells of F16 are not held so"), "{error}");
    let long = bf16("long", &[2000], vec![0; 4000], vec![0; 4000]);
    let many: Vec<(u32, u16)> = (0..300).map(|cell| (cell, 1)).collect();
    let error = session.bind_f16(entry(&long), &buffer, F16, &many).unwrap_err();
    assert!(error.code() == "limit" && error.to_string().contains("the side table of an f16 tensor"), "{error}");
    session.bind_f16(entry(&tensor), &buffer, Layout::default(), &[(9, 1)]).unwrap();
    let again = session.bind_f16(entry(&tensor), &buffer, F16, &[(8, 2)]).unwrap_err();
    assert!(again.to_string().contains("bound already"), "{again}");
    assert_eq!(pollster::block_on(session.exceptions("w")), Ok(vec![(9, 1)]));
    assert_eq!(pollster::block_on(session.exceptions("long")).unwrap_err().code(), "misuse");
}

fn a_table_that_cannot_grow_stops_before_the_first_write<P: TestPort>() {
    let start = vec![0; 8000];
    let target = cells((0..4000).map(|cell| if cell % 7 == 0 { 1 + cell } else { 0 }));
    let pair = Pair::new([bf16("w", &[4000], start.clone(), target)]);
    let small = DeviceLimits { binding_bytes: 8 << 10, ..DeviceLimits::DEFAULT };
    for profile in [ProfileChoice::Contextual, ProfileChoice::Absolute] {
        let patch = pair.encode(&EncodeOptions { profile, ..EncodeOptions::default() });
        let mut bound = Bound::new(&pair, &F16, P::open(small), Options::default());
        let error = pollster::block_on(bound.session.apply(patch.as_slice(), &NoHooks)).unwrap_err();
        assert_eq!((error.code(), bound.session.poisoned()), ("limit", None));
        assert!(bound.holds_base());
        let fewer = cells((0..4000).map(|cell| u16::from(cell % 40 == 0)));
        let fewer = Pair::new([bf16("w", &[4000], start.clone(), fewer)]);
        let patch = fewer.encode(&EncodeOptions { profile, ..EncodeOptions::default() });
        pollster::block_on(bound.session.apply(patch.as_slice(), &NoHooks)).unwrap();
        assert!(bound.holds(|_| fewer.tensors[0].target.as_slice()), "the session goes on");
    }
}

/// The tensors of two steps of a chain.
fn steps_of(chain: &ExcerptChain, base: u32, target: u32) -> Pair {
    let (base, target) = (chain.step_bytes(base), chain.step_bytes(target));
    let (base, target) = (SafeTensors::deserialize(&base).unwrap(), SafeTensors::deserialize(&target).unwrap());
    let tensor = |name: &str| {
        let (base, target) = (base.tensor(name).unwrap(), target.tensor(name).unwrap());
        let shape: Vec<u64> = base.shape().iter().map(|length| *length as u64).collect();
        bf16(name, &shape, base.data().to_vec(), target.data().to_vec())
    };
    Pair::new(base.names().into_iter().map(tensor).collect::<Vec<_>>())
}

fn real_steps<P: TestPort>() {
    let chain = ExcerptChain::load(ChainName::Mature);
    let steps = chain.steps();
    let (mut bound, mut submits): (Option<Bound<P>>, _) = (None, Vec::new());
    for step in steps.windows(2) {
        let pair = steps_of(&chain, step[0], step[1]);
        let (base_step, target_step) = (Step(step[0].into()), Step(step[1].into()));
        let patch = pair.encode(&EncodeOptions { base_step, target_step, ..EncodeOptions::default() });
        let bound =
            bound.get_or_insert_with(|| Bound::new(&pair, &F16, P::open(DeviceLimits::DEFAULT), Options::default()));
        let applied = pollster::block_on(bound.session.apply(patch.as_slice(), &NoHooks)).unwrap();
        let state = |tensor: &TestTensor| pair.tensors.iter().find(|other| other.name == tensor.name).unwrap();
        assert!(bound.holds(|tensor| &state(tensor).target), "step {step:?}");
        let exceptions: usize = pair.tensors.iter().map(|tensor| half::convert(&tensor.target).1.len()).sum();
        eprintln!("{step:?}: {exceptions} exceptions of {} cells, {:?}", chain.cells(), applied.device.unwrap());
        // Few cells are tiny, so tables are far smaller than the weights, and soon large enough for all steps.
        assert!(exceptions * 1000 < chain.cells());
        assert!(applied.device.unwrap().side_bytes < chain.cells() as u64 / 20);
        submits.push(applied.device.unwrap().submits);
    }
    assert!(submits[..2].iter().all(|submits| *submits <= 8), "{submits:?}");
    assert_eq!(submits[2..], [4; 6]);
}

on_every_port! {
    every_pattern a_table_grows_and_is_cleared_out an_engine_that_wrote_is_found_out impossible_bindings_are_refused
    a_table_that_cannot_grow_stops_before_the_first_write real_steps
}

/// Elements of any bits, sound or not, read alike by a GPU and by the twin.
#[test]
fn any_f16_reads_alike() {
    fn fingerprints<P: TestPort>() -> Vec<pulse_format::Fingerprint> {
        let noise = cells((0..=u16::MAX).chain(0..=u16::MAX));
        let mut random = Random::new(5);
        let exceptions: Vec<(u32, u16)> = (0..1 << 17)
            .map(|cell| (cell, random.word() as u16))
            .filter(|(_, bits)| !half::from_bf16(*bits).1)
            .collect();
        let mut session = Session::new(P::open(DeviceLimits::DEFAULT), Options::default());
        for (name, exceptions) in [("with", exceptions.as_slice()), ("without", &[])] {
            let tensor = bf16(name, &[512, 256], noise.clone(), noise.clone());
            let buffer = session.port().filled(&noise);
            session.bind_f16(entry(&tensor), &buffer, F16, exceptions).unwrap();
        }
        (0..3).map(|seed| pollster::block_on(session.fingerprint(seed)).unwrap()).collect()
    }
    if adapter::open().is_some() {
        assert_eq!(fingerprints::<&'static WgpuPort>(), fingerprints::<TwinPort>());
    }
}

#[test]
fn a_small_table_serves_most_tensors() {
    let pair = Pair::new([TestTensor::weights("w", &[31, 70], 12, 1)]);
    let patch = pair.encode(&EncodeOptions::default());
    let mut bound = Bound::new(&pair, &F16, TwinPort::open(DeviceLimits::DEFAULT), Options::default());
    let applied = pollster::block_on(bound.session.apply(patch.as_slice(), &NoHooks)).unwrap();
    assert!(bound.holds_target());
    assert_eq!(applied.device.unwrap().side_bytes, SMALLEST_TABLE, "no cell near the bounds, no room made");
}
