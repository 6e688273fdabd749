//! Patches applied in buffers: every layout, profile and dtype, small devices, and whatever can go wrong on the way.

use crate::support::cells::{Pair, TestTensor};
use crate::support::gpu::{Bound, TestPort, entry, on_every_port};
use pulse_applier_wasm::gpu::{DeviceLimits, Element, Layout};
use pulse_applier_wasm::{Error, Hooks, NoHooks, Options};
use pulse_encoder::{EncodeOptions, ProfileChoice};
use pulse_format::{Dtype, Step};
use std::cell::Cell;

const SMALL: DeviceLimits = DeviceLimits { binding_bytes: 16 << 10, workgroups: 3, ..DeviceLimits::DEFAULT };

fn layouts() -> Vec<Layout> {
    let plain = Layout::default();
    let mut layouts = Vec::new();
    for element in [Element::Packed, Element::F32, Element::F16] {
        let layout = Layout { element, ..plain };
        layouts.push(layout);
        layouts.push(Layout { offset: 4 * 77, ..layout });
        layouts.push(Layout { stride: Some(131), offset: 512, ..layout });
        layouts.push(Layout { transposed: true, ..layout });
        layouts.push(Layout { transposed: true, stride: Some(133), offset: 12, ..layout });
    }
    layouts.push(Layout { offset: 2, ..plain });
    layouts.push(Layout { offset: 2, element: Element::F16, ..plain });
    layouts
}

fn every_layout<P: TestPort>() {
    let pair = Pair::new([
        TestTensor::weights("layers.0.w", &[31, 70], 12, 1),
        TestTensor::weights("layers.1.norm", &[65], 4, 2),
        TestTensor::weights("layers.1.w", &[3, 11, 101], 3, 7),
        TestTensor::noise("jumps", Dtype::Bf16, &[40, 40], 5, 9),
        TestTensor::doubled("twice", &[30, 50], 6),
    ]);
    for layout in layouts() {
        for profile in [ProfileChoice::Auto, ProfileChoice::Contextual, ProfileChoice::Absolute] {
            for segment_cells in [1024, 1 << 22] {
                let options = EncodeOptions { profile, segment_cells, seed: 3, ..EncodeOptions::default() };
                let patch = pair.encode(&options);
                // A transposed tensor must fit one binding, and so must a side table.
                let whole = if layout.element == Element::F16 { 3 } else { 2 * u8::from(layout.transposed) };
                let small = DeviceLimits { binding_bytes: SMALL.binding_bytes << whole, ..SMALL };
                for (limits, scratch_bytes) in
                    [(DeviceLimits::DEFAULT, 16 << 20), (small, 16 << 20), (DeviceLimits::DEFAULT, 1 << 13)]
                {
                    let options = Options { scratch_bytes, ..Options::default() };
                    let mut bound = Bound::new(&pair, &layout, P::open(limits), options);
                    let applied = pollster::block_on(bound.session.apply(patch.as_slice(), &NoHooks)).unwrap();
                    assert!(bound.holds_target(), "{layout:?} {profile:?} {segment_cells} {limits:?}");
                    assert_eq!(applied.changes, pair.changes());
                    assert_eq!(bound.session.step(), Some(Step(1)));
                }
            }
        }
    }
}

fn every_dtype<P: TestPort>() {
    for profile in [ProfileChoice::Auto, ProfileChoice::Contextual, ProfileChoice::Absolute] {
        let tensor = |dtype: &Dtype| TestTensor::noise(dtype.name(), *dtype, &[12, 148], 7, *dtype as u64);
        let pair = Pair::new(Dtype::ALL.iter().map(tensor).collect::<Vec<_>>());
        let patch = pair.encode(&EncodeOptions { profile, ..EncodeOptions::default() });
        for layout in [Layout::default(), Layout { transposed: true, stride: Some(16), offset: 8, ..Layout::default() }]
        {
            let mut bound = Bound::new(&pair, &layout, P::open(DeviceLimits::DEFAULT), Options::default());
            pollster::block_on(bound.session.apply(patch.as_slice(), &NoHooks)).unwrap();
            assert!(bound.holds_target());
            pollster::block_on(bound.session.undo(&NoHooks)).unwrap();
            assert!(bound.holds_base());
        }
    }
}

fn mixed<P: TestPort>() -> (Vec<u8>, Bound<P>) {
    let pair = Pair::mixed();
    let patch = pair.encode(&Pair::mixed_options());
    let options = Options { step: Some(Step(0)), ..Options::default() };
    (patch, Bound::new(&pair, &Layout::default(), P::open(DeviceLimits::DEFAULT), options))
}

fn an_f32_that_is_no_bf16_is_found_out<P: TestPort>() {
    let pair = Pair::new([TestTensor::weights("w", &[31, 70], 12, 1)]);
    let layout = Layout { element: Element::F32, ..Layout::default() };
    for profile in [ProfileChoice::Contextual, ProfileChoice::Absolute] {
        let patch = pair.encode(&EncodeOptions { profile, ..EncodeOptions::default() });
        let mut bound = Bound::new(&pair, &layout, P::open(DeviceLimits::DEFAULT), Options::default());
        bound.flip(0, 400, 1);
        let error = pollster::block_on(bound.session.apply(patch.as_slice(), &NoHooks)).unwrap_err();
        assert_eq!((error.code(), bound.session.poisoned()), ("wrong_base", None));
        bound.flip(0, 400, 1);
        assert!(bound.holds_base());
    }
}

fn undo_and_challenge<P: TestPort>() {
    let (patch, mut bound) = mixed::<P>();
    let before = pollster::block_on(bound.session.fingerprint(9)).unwrap();
    let applied = pollster::block_on(bound.session.apply(patch.as_slice(), &NoHooks)).unwrap();
    let after = pollster::block_on(bound.session.fingerprint(9)).unwrap();
    assert_ne!(before, after);
    assert_eq!(pollster::block_on(bound.session.fingerprint(77)).unwrap(), applied.fingerprint, "the patch's own seed");
    // The challenges above used the scratch memory, and left what is kept for undo alone.
    assert_eq!(pollster::block_on(bound.session.undo(&NoHooks)), Ok(Step(0)));
    assert!(bound.holds_base());
    assert_eq!(pollster::block_on(bound.session.fingerprint(9)).unwrap(), before);
    assert_eq!(pollster::block_on(bound.session.undo(&NoHooks)).unwrap_err().code(), "misuse");
    pollster::block_on(bound.session.apply(patch.as_slice(), &NoHooks)).unwrap();
    assert!(bound.holds_target());
}

fn refusals_write_nothing<P: TestPort>() {
    let (patch, _) = mixed::<P>();
    for byte in (0..patch.len()).step_by(41) {
        let (_, mut bound) = mixed::<P>();
        let mut damaged = patch.clone();
        damaged[byte] ^= 0x10;
        pollster::block_on(bound.session.apply(damaged.as_slice(), &NoHooks)).unwrap_err();
        pollster::block_on(bound.session.apply(&patch[..byte], &NoHooks)).unwrap_err();
        assert!(bound.holds_base(), "byte {byte}");
        pollster::block_on(bound.session.apply(patch.as_slice(), &NoHooks)).unwrap();
        assert!(bound.holds_target(), "the session goes on");
    }
    let (_, mut bound) = mixed::<P>();
    bound.corrupt(0, 40);
    let error = pollster::block_on(bound.session.apply(patch.as_slice(), &NoHooks)).unwrap_err();
    assert_eq!(error.code(), "wrong_base");
    bound.corrupt(0, 40);
    assert!(bound.holds_base());
    // An absolute segment tells only by its result; it is taken back.
    bound.corrupt(4, 48);
    let error = pollster::block_on(bound.session.apply(patch.as_slice(), &NoHooks)).unwrap_err();
    assert_eq!((error.code(), bound.session.poisoned()), ("wrong_base", None));
    bound.corrupt(4, 48);
    assert!(bound.holds_base());
    pollster::block_on(bound.session.apply(patch.as_slice(), &NoHooks)).unwrap();
    let error = pollster::block_on(bound.session.apply(patch.as_slice(), &NoHooks)).unwrap_err();
    assert_eq!(error, Error::Stale { base: 0, target: 1, held: 1 });
    assert!(bound.holds_target());
}

fn absolute_goes_twice<P: TestPort>() {
    let pair = Pair::new([TestTensor::weights("w", &[50, 40], 3, 2), TestTensor::noise("n", Dtype::I64, &[90], 3, 4)]);
    let patch = pair.encode(&EncodeOptions { profile: ProfileChoice::Absolute, ..EncodeOptions::default() });
    let applied = pair.tensors.iter().map(|tensor| TestTensor { base: tensor.target.clone(), ..tensor.clone() });
    let pair = Pair::new(applied.collect::<Vec<_>>());
    let mut bound = Bound::new(&pair, &Layout::default(), P::open(DeviceLimits::DEFAULT), Options::default());
    pollster::block_on(bound.session.apply(patch.as_slice(), &NoHooks)).unwrap();
    assert!(bound.holds_target());
}

/// Stops at the `n`th question.
struct StopAt {
    left: Cell<usize>,
    quiet: Cell<bool>,
    invalidated: Cell<bool>,
}

impl Hooks for StopAt {
    fn cancelled(&self) -> bool {
        assert!(!self.quiet.get(), "no stop once the engine is quiet");
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left == 0
    }

    async fn quiesce(&self) -> Result<(), Error> {
        self.quiet.set(true);
        Ok(())
    }

    async fn invalidate(&self) -> Result<(), Error> {
        self.invalidated.set(true);
        Ok(())
    }
}

fn stops_leave_the_old_weights<P: TestPort>() {
    let mut stopped = 0;
    for n in 0.. {
        let (patch, mut bound) = mixed::<P>();
        let hooks = StopAt { left: Cell::new(n), quiet: Cell::new(false), invalidated: Cell::new(false) };
        match pollster::block_on(bound.session.apply(patch.as_slice(), &hooks)) {
            Ok(_) => {
                assert!(bound.holds_target() && hooks.quiet.get() && hooks.invalidated.get());
                break;
            }
            Err(error) => assert_eq!(error, Error::Aborted),
        }
        assert!(bound.holds_base() && !hooks.quiet.get());
        assert_eq!(bound.session.poisoned(), None);
        stopped += 1;
    }
    assert!(stopped > 3);
}

fn impossible_bindings_are_refused<P: TestPort>() {
    let tensor = TestTensor::weights("w", &[40, 50], 3, 2);
    let mut session = pulse_applier_wasm::gpu::Session::new(P::open(SMALL), Options::default());
    let buffer = session.port().filled(&[0; 4000]);
    let plain = Layout::default();
    let big = session.port().filled(&[0; 1 << 16]);
    for (layout, buffer, part) in [
        (Layout { element: Element::F32, ..plain }, &buffer, "ends behind its buffer"),
        (Layout { offset: 2, ..plain }, &buffer, "ends behind its buffer"),
        (Layout { offset: 1, ..plain }, &buffer, "offset is no multiple of 2"),
        (Layout { stride: Some(49), ..plain }, &buffer, "stride is not at least 50"),
        (Layout { stride: Some(u64::MAX), ..plain }, &big, "stride is not at least 50"),
        (Layout { transposed: true, stride: Some(400), ..plain }, &big, "bytes must fit one binding"),
        (Layout { offset: u64::MAX - 1, ..plain }, &big, "ends behind its buffer"),
    ] {
        let error = session.bind(entry(&tensor), buffer, layout).unwrap_err();
        assert!(error.code() == "binding" && error.to_string().contains(part), "{error}");
    }
    let ints = TestTensor::noise("i", Dtype::I32, &[10], 3, 2);
    let error = session.bind(entry(&ints), &big, Layout { element: Element::F32, ..plain }).unwrap_err();
    assert!(error.to_string().contains("cells of I32 are not held so"), "{error}");
    session.bind(entry(&tensor), &buffer, plain).unwrap();
    let again = session.bind(entry(&tensor), &session.port().filled(&[0; 4000]), plain).unwrap_err();
    assert!(again.to_string().contains("bound already"), "{again}");
}

/// Tied weights are refused; parts of a fused matrix are not, though one lies between the rows of the other.
fn shared_elements_are_refused<P: TestPort>() {
    let mut session = pulse_applier_wasm::gpu::Session::new(P::open(DeviceLimits::DEFAULT), Options::default());
    let tensor = |name: &str, columns| entry(&TestTensor::weights(name, &[10, columns], 3, 2));
    let fused = session.port().filled(&[0; 2 * 10 * 60]);
    let at = |offset: u64, stride| Layout { offset: 2 * offset, stride: Some(stride), ..Layout::default() };
    session.bind(tensor("q", 30), &fused, at(0, 60)).unwrap();
    session.bind(tensor("k", 10), &fused, at(30, 60)).unwrap();
    for (name, columns, layout) in [
        ("v_over_q", 20, at(20, 60)),
        ("v_over_k", 20, at(39, 60)),
        ("v_of_another_stride", 20, at(40, 50)),
        ("tied", 30, at(0, 60)),
    ] {
        let error = session.bind(tensor(name, columns), &fused, layout).unwrap_err();
        assert!(error.code() == "binding" && error.to_string().contains("overlap"), "{name}: {error}");
    }
    session.bind(tensor("v", 20), &fused, at(40, 60)).unwrap();
}

on_every_port! {
    every_layout every_dtype undo_and_challenge refusals_write_nothing stops_leave_the_old_weights
    impossible_bindings_are_refused shared_elements_are_refused absolute_goes_twice an_f32_that_is_no_bf16_is_found_out
}
