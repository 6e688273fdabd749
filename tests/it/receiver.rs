//! The receiver over memory: the reference's result or nothing written, whatever the patch, the base and the caller do.

use crate::support::cells::{Cells, Pair};
use crate::support::inflate::Ruzstd;
use crate::support::paths::apply_whole;
use pulse_applier_wasm::cpu::Session;
use pulse_applier_wasm::{Applied, Error, Hooks, NoHooks, Options, Patch, Phase, Progress, Source};
use pulse_encoder::{Checkpoint, EncodeOptions, ProfileChoice, Silent, encode};
use pulse_format::{Dtype, Header, Limits, Profile, Step, Tensor};
use pulse_tests::fixtures::{ChainName, ExcerptChain};
use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};

/// Runs what waits for nothing but what is there.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a receiver waits for nothing else"),
    }
}

/// A session that holds this step.
fn at(step: Step) -> Options {
    Options { step: Some(step), ..Options::default() }
}

fn header_of(patch: &[u8]) -> Header {
    block_on(Patch::open(patch, &Limits::default())).unwrap().header().clone()
}

/// A session with the tensors of `header` that `wanted` names, over copies of `cells`.
fn session(header: &Header, cells: &Cells, wanted: impl Fn(&str) -> bool) -> Session<Vec<u8>> {
    let mut session = Session::new(at(header.base_step.unwrap()));
    for tensor in header.tensors.iter().filter(|tensor| wanted(&tensor.name)) {
        session.bind(tensor.clone(), cells[&tensor.name].clone(), 0).unwrap();
    }
    session
}

fn held(session: &Session<Vec<u8>>, cells: &Cells) -> Cells {
    let held = cells.keys().filter_map(|name| Some((name.clone(), session.memory(name)?.clone())));
    held.collect()
}

fn apply(session: &mut Session<Vec<u8>>, patch: &[u8]) -> Result<Applied, Error> {
    block_on(session.apply(patch, &NoHooks))
}

fn mixed() -> (Pair, Vec<u8>) {
    let pair = Pair::mixed();
    let patch = pair.encode(&EncodeOptions { target_step: Step(1), ..Pair::mixed_options() });
    (pair, patch)
}

#[test]
fn a_real_chain_equals_the_reference() {
    let chain = ExcerptChain::load(ChainName::Mature);
    let folder = tempfile::tempdir().unwrap();
    let steps = chain.materialise_all(folder.path());
    for profile in [ProfileChoice::Contextual, ProfileChoice::Absolute] {
        let mut receiver: Option<Session<Vec<u8>>> = None;
        for pair in steps.windows(2) {
            let [base, target] = [&pair[0], &pair[1]].map(|file| Checkpoint::open(&file.path).unwrap());
            let cells_of = |checkpoint: &Checkpoint| -> Cells {
                let tensors = checkpoint.tensors().iter();
                tensors.map(|stored| (stored.tensor.name.clone(), checkpoint.bytes(stored).to_vec())).collect()
            };
            let (base_step, target_step) = (Step(pair[0].step.into()), Step(pair[1].step.into()));
            let options = EncodeOptions { base_step, target_step, profile, ..EncodeOptions::default() };
            let patch = encode(&base, &target, &options, &Silent).unwrap().into_bytes().unwrap();
            let header = header_of(&patch);
            let receiver = receiver.get_or_insert_with(|| session(&header, &cells_of(&base), |_| true));
            let applied = apply(receiver, &patch).unwrap();
            assert_eq!(applied.changes, chain.changed(pair[1].step).unwrap() as u64);
            assert_eq!((applied.cells, applied.patch_bytes), (chain.cells() as u64, patch.len() as u64));
            assert_eq!((applied.base_step, receiver.step()), (Some(base_step), Some(target_step)));
            assert_eq!(applied.fingerprint, header.target_fingerprint());
            assert_eq!(receiver.fingerprint(header.seed).unwrap(), header.target_fingerprint());
            assert_ne!(receiver.fingerprint(header.seed + 1).unwrap(), header.target_fingerprint());
            let held = held(receiver, &cells_of(&target));
            assert!(held == cells_of(&target), "step {} differs", pair[1].step);
            assert!(held == apply_whole(&patch, &cells_of(&base), &Ruzstd).unwrap());
        }
    }
}

#[test]
fn every_dtype_and_profile_at_an_offset() {
    let (pair, patch) = mixed();
    let header = header_of(&patch);
    let profiles: Vec<Profile> = header.segments.iter().map(|segment| segment.profile).collect();
    assert!(profiles.contains(&Profile::Unchanged) && profiles.contains(&Profile::Absolute));
    let mut session = Session::new(Options::default());
    for tensor in header.tensors.iter().rev() {
        let cells = &pair.base_cells()[&tensor.name];
        session.bind(tensor.clone(), [&[7; 13], cells.as_slice(), &[9; 3]].concat(), 13).unwrap();
    }
    apply(&mut session, &patch).unwrap();
    assert_eq!(session.step(), Some(Step(1)));
    for (name, cells) in pair.target_cells() {
        assert_eq!(*session.memory(&name).unwrap(), [&[7; 13], cells.as_slice(), &[9; 3]].concat(), "{name}");
    }
}

/// Remembers the ranges that were read.
struct Spy<'a>(&'a [u8], &'a RefCell<Vec<u64>>);

impl Source for Spy<'_> {
    async fn read(&mut self, offset: u64, length: usize) -> Result<Vec<u8>, Error> {
        self.1.borrow_mut().push(offset);
        self.0.read(offset, length).await
    }

    fn length(&self) -> Option<u64> {
        None
    }
}

#[test]
fn of_a_subset_only_its_segments_are_read() {
    let (pair, patch) = mixed();
    let header = header_of(&patch);
    let base = pair.base_cells();
    let mut some = session(&header, &base, |name| name == "counts");
    let reads = RefCell::default();
    let applied = block_on(some.apply(Spy(&patch, &reads), &NoHooks)).unwrap();
    let counts = header.tensors.iter().position(|tensor| tensor.name == "counts").unwrap();
    let segments = header.segments.iter().enumerate();
    let of_counts = segments.filter(|(index, _)| header.pieces(*index).iter().any(|piece| piece.tensor == counts));
    let (offsets, bytes): (Vec<u64>, Vec<u64>) =
        of_counts.map(|(_, segment)| (segment.offset.get(), u64::from(segment.bytes))).unzip();
    assert!(offsets.len() > 1);
    assert_eq!(*reads.borrow(), [vec![0, 52], offsets].concat());
    assert_eq!(applied.patch_bytes, header.payload_start.get() + bytes.iter().sum::<u64>());
    assert_eq!(some.memory("counts").unwrap(), &pair.target_cells()["counts"]);
    let first = header.tensors.iter().find(|tensor| tensor.dtype == Dtype::Bf16).unwrap().name.clone();
    let mut split = session(&header, &base, |name| name == first);
    let error = apply(&mut split, &patch).unwrap_err();
    assert_eq!(error.code(), "mismatch", "{error}");
    assert!(error.to_string().contains("layers.0.w, which is bound, and layers.1.norm, which is not"), "{error}");
}

#[test]
fn stale_and_misfit_are_told_before_a_segment_is_read() {
    let (pair, patch) = mixed();
    let header = header_of(&patch);
    let base = pair.base_cells();
    let reads = RefCell::default();
    let mut stale = session(&Header { base_step: Some(Step(8)), ..header.clone() }, &base, |_| true);
    let error = block_on(stale.apply(Spy(&patch, &reads), &NoHooks)).unwrap_err();
    assert_eq!(error, Error::Stale { base: 0, target: 1, held: 8 });
    let mut other = session(&header, &base, |_| true);
    other.bind(Tensor { name: "more".into(), dtype: Dtype::F32, shape: vec![1] }, vec![0; 4], 0).unwrap();
    let error = block_on(other.apply(Spy(&patch, &reads), &NoHooks)).unwrap_err();
    assert_eq!(error.code(), "mismatch");
    assert_eq!(*reads.borrow(), [0, 52, 0, 52]);
    let short = other.bind(Tensor { name: "short".into(), dtype: Dtype::F32, shape: vec![2] }, vec![0; 11], 4);
    let error = short.unwrap_err().to_string();
    assert_eq!(error, "tensor short cannot be bound: it needs 8 bytes from byte 4 on, the memory has 11");
    assert_eq!(apply(&mut Session::new(Options::default()), &patch).unwrap_err().code(), "mismatch");
}

#[test]
fn a_wrong_base_writes_nothing() {
    let (pair, patch) = mixed();
    let header = header_of(&patch);
    for tensor in &pair.tensors {
        let (name, bits) = (&tensor.name, tensor.base.len() * 8);
        for bit in [0, bits / 2, bits - 1] {
            let mut wrong = pair.base_cells();
            wrong.get_mut(name).unwrap()[bit / 8] ^= 1 << (bit % 8);
            let mut session = session(&header, &wrong, |_| true);
            let error = apply(&mut session, &patch).unwrap_err();
            assert_eq!(error.code(), "wrong_base", "{name} {bit}: {error}");
            assert!(held(&session, &wrong) == wrong && session.poisoned().is_none());
            assert_eq!(session.step(), Some(Step(0)));
        }
    }
}

#[test]
fn a_flipped_bit_or_a_missing_byte_writes_nothing() {
    let (pair, patch) = mixed();
    let base = pair.base_cells();
    let mut session = session(&header_of(&patch), &base, |_| true);
    for bit in (0..patch.len() * 8).step_by(7) {
        let mut flipped = patch.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let error = apply(&mut session, &flipped).unwrap_err();
        assert!(["damaged", "unsupported", "truncated", "limit"].contains(&error.code()), "bit {bit}: {error}");
    }
    for length in (0..patch.len()).step_by(3) {
        assert_eq!(apply(&mut session, &patch[..length]).unwrap_err().code(), "truncated", "{length} bytes");
    }
    let longer = [patch.as_slice(), &[0]].concat();
    assert_eq!(apply(&mut session, &longer).unwrap_err().code(), "damaged");
    assert!(held(&session, &base) == base && session.poisoned().is_none());
    // And it still works.
    apply(&mut session, &patch).unwrap();
    assert!(held(&session, &base) == pair.target_cells());
    let mut limits = Limits::default();
    limits.segments = 1;
    let mut strict = Session::<Vec<u8>>::new(Options { limits, ..Options::default() });
    assert_eq!(apply(&mut strict, &patch).unwrap_err().code(), "limit");
}

#[test]
fn absolute_may_be_applied_twice() {
    let pair = Pair::mixed();
    let options = EncodeOptions { profile: ProfileChoice::Absolute, target_step: Step(1), ..Pair::mixed_options() };
    let patch = pair.encode(&options);
    let header = header_of(&patch);
    let mut session = session(&header, &pair.base_cells(), |_| true);
    apply(&mut session, &patch).unwrap();
    assert_eq!(apply(&mut session, &patch).unwrap_err().code(), "stale");
    let mut again = self::session(&header, &pair.target_cells(), |_| true);
    apply(&mut again, &patch).unwrap();
    assert!(held(&again, &pair.base_cells()) == pair.target_cells());
}

/// Notes what is called, and fails or stops where it is told to.
#[derive(Default)]
struct Script {
    log: RefCell<Vec<&'static str>>,
    asked: Cell<usize>,
    /// The question that is answered with yes, counted from 1.
    cancel_at: usize,
    fail: Option<&'static str>,
    last: Cell<Option<Progress>>,
}

impl Script {
    fn call(&self, hook: &'static str) -> Result<(), Error> {
        self.log.borrow_mut().push(hook);
        if self.fail == Some(hook) { Err(Error::Hook { hook, message: "no".into() }) } else { Ok(()) }
    }
}

impl Hooks for Script {
    fn cancelled(&self) -> bool {
        self.asked.set(self.asked.get() + 1);
        self.asked.get() == self.cancel_at
    }

    fn progress(&self, progress: Progress) {
        let last = self.last.replace(Some(progress));
        let (phase, done) = last.map_or((Phase::Verify, 0), |last| (last.phase, last.done));
        assert!(progress.phase != phase || progress.done > done);
        assert!(progress.done <= progress.total);
        if progress.phase != phase {
            self.log.borrow_mut().push(progress.phase.name());
        }
    }

    async fn quiesce(&self) -> Result<(), Error> {
        self.call("quiesce")
    }

    async fn invalidate(&self) -> Result<(), Error> {
        self.call("invalidate")
    }
}

#[test]
fn a_stop_at_any_question_writes_nothing() {
    let (pair, patch) = mixed();
    let base = pair.base_cells();
    let header = header_of(&patch);
    let mut asked = 0;
    for cancel_at in 1.. {
        let script = Script { cancel_at, ..Script::default() };
        let mut session = session(&header, &base, |_| true);
        match block_on(session.apply(patch.as_slice(), &script)) {
            Ok(_) => break,
            Err(error) => assert_eq!(error, Error::Aborted),
        }
        asked += 1;
        assert!(held(&session, &base) == base && session.poisoned().is_none());
        assert!(script.log.borrow().is_empty(), "nothing was written, so nobody was asked to wait");
    }
    assert_eq!(asked, header.segments.len() + 2);
}

#[test]
fn hooks_are_called_around_the_writes() {
    let (pair, patch) = mixed();
    let base = pair.base_cells();
    let header = header_of(&patch);
    let run = |fail| {
        let script = Script { fail, ..Script::default() };
        let mut session = session(&header, &base, |_| true);
        let result = block_on(session.apply(patch.as_slice(), &script));
        (result.map_err(|error| error.code()), script.log.into_inner(), session)
    };
    let (result, log, _) = run(None);
    assert_eq!((result.is_ok(), log), (true, vec!["quiesce", "write", "invalidate"]));
    let (result, log, session) = run(Some("quiesce"));
    assert_eq!((result, log), (Err("hook"), vec!["quiesce"]));
    assert!(held(&session, &base) == base && session.step() == Some(Step(0)));
    // The weights are the new ones by then, and the session says so.
    let (result, _, session) = run(Some("invalidate"));
    assert_eq!((result, session.step()), (Err("hook"), Some(Step(1))));
    assert!(held(&session, &base) == pair.target_cells());
}
