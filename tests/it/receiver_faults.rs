//! The receiver over memory when source or memory fail, and what it takes back: the old weights, the new ones, or a word that they are
//! neither.

use crate::support::cells::{Cells, Pair, TestTensor};
use crate::support::memory::peak_of;
use pulse_applier_wasm::cpu::{Memory, Session};
use pulse_applier_wasm::{Error, Hooks, Intent, NoHooks, Options, Source};
use pulse_encoder::EncodeOptions;
use pulse_format::{Header, Limits, Step, Tensor};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    pollster::block_on(future)
}

/// Memory that two tensors may share, and whose writes fail where they are told to.
#[derive(Debug, Clone)]
struct Shared {
    bytes: Rc<RefCell<Vec<u8>>>,
    start: usize,
    faults: Rc<Faults>,
}

/// Which writes fail, counted over all memory of a session.
#[derive(Debug, Default)]
struct Faults {
    writes: Cell<usize>,
    first: Cell<Option<usize>>,
    /// That one only, or all from it on.
    once: Cell<bool>,
}

impl Faults {
    fn set(&self, first: usize, once: bool) {
        self.writes.set(0);
        self.first.set(Some(first));
        self.once.set(once);
    }

    fn write(&self) -> Result<(), Error> {
        let write = self.writes.replace(self.writes.get() + 1);
        let fails = self.first.get().is_some_and(|first| write == first || (write > first && !self.once.get()));
        if fails { Err(Error::Misuse { what: "gone".into() }) } else { Ok(()) }
    }
}

impl Memory for Shared {
    fn read(&self, start: usize, out: &mut [u8]) -> Result<(), Error> {
        self.bytes.borrow().read(self.start + start, out)
    }

    fn write(&mut self, start: usize, bytes: &[u8]) -> Result<(), Error> {
        let failed = self.faults.write();
        // A write that fails has written some.
        let written = if failed.is_err() { &bytes[..bytes.len() / 2] } else { bytes };
        self.bytes.borrow_mut().write(self.start + start, written)?;
        failed
    }

    fn length(&self) -> usize {
        self.bytes.borrow().len() - self.start
    }

    fn distance(&self, other: &Self) -> Option<isize> {
        Rc::ptr_eq(&self.bytes, &other.bytes).then(|| other.start as isize - self.start as isize)
    }
}

/// A pair, its patch, and a session at the base.
struct Case {
    pair: Pair,
    patch: Vec<u8>,
    session: Session<Shared>,
    faults: Rc<Faults>,
}

impl Case {
    fn new(undo_bytes: u64) -> Self {
        let pair = Pair::mixed();
        let patch = pair.encode(&EncodeOptions { target_step: Step(1), ..Pair::mixed_options() });
        let faults = Rc::new(Faults::default());
        let mut session = Session::new(Options { step: Some(Step(0)), undo_bytes, ..Options::default() });
        for tensor in header(&patch).tensors {
            let bytes = Rc::new(RefCell::new(pair.base_cells()[&tensor.name].clone()));
            session.bind(tensor, Shared { bytes, start: 0, faults: faults.clone() }, 0).unwrap();
        }
        Self { pair, patch, session, faults }
    }

    fn apply(&mut self) -> Result<(), Error> {
        block_on(self.session.apply(self.patch.as_slice(), &NoHooks)).map(drop)
    }

    fn holds(&self, cells: &Cells) -> bool {
        cells.iter().all(|(name, cells)| *self.session.memory(name).unwrap().bytes.borrow() == *cells)
    }

    fn holds_base(&self) -> bool {
        self.holds(&self.pair.base_cells())
    }

    fn holds_target(&self) -> bool {
        self.holds(&self.pair.target_cells())
    }
}

fn header(patch: &[u8]) -> Header {
    Header::read(patch, &pulse_encoder::Zstd::default(), &Limits::default()).unwrap()
}

const KEPT: u64 = 1 << 20;

#[test]
fn a_write_that_fails_once_is_taken_back() {
    let (mut failed, mut undone) = (0, 0);
    for write in 0.. {
        let mut case = Case::new(KEPT);
        case.faults.set(write, true);
        if case.apply().is_ok() {
            break;
        }
        failed += 1;
        assert!(case.holds_base() && case.session.poisoned().is_none(), "write {write}");
        assert_eq!((case.session.step(), case.session.undo_step()), (Some(Step(0)), None));
        case.apply().unwrap();
        assert!(case.holds_target());
        for write in 0.. {
            case.faults.set(write, true);
            if block_on(case.session.undo(&NoHooks)).is_ok() {
                break;
            }
            undone += 1;
            assert!(case.holds_target() && case.session.poisoned().is_none(), "undo, write {write}");
            assert_eq!((case.session.step(), case.session.undo_step()), (Some(Step(1)), Some(Step(0))));
        }
        assert!(case.holds_base() && case.session.step() == Some(Step(0)));
    }
    assert!(failed > 4 && undone > 4 * failed, "{failed} {undone}");
}

#[test]
fn memory_that_is_gone_poisons() {
    for write in 0..3 {
        let mut case = Case::new(KEPT);
        case.faults.set(write, false);
        let error = case.apply().unwrap_err();
        assert_eq!((error.code(), case.session.poisoned()), ("misuse", Some("misuse: gone")));
        assert_eq!(case.apply().unwrap_err().code(), "poisoned");
        assert_eq!(case.session.fingerprint(0).unwrap_err().code(), "poisoned");
        assert_eq!(block_on(case.session.undo(&NoHooks)).unwrap_err().code(), "poisoned");
    }
}

/// Fails from its read number `left` on.
struct Failing<'a>(&'a [u8], usize);

impl Source for Failing<'_> {
    async fn read(&mut self, offset: u64, length: usize) -> Result<Vec<u8>, Error> {
        self.1 = self.1.checked_sub(1).ok_or_else(|| Error::Source { message: "gone".into() })?;
        self.0.read(offset, length).await
    }

    fn length(&self) -> Option<u64> {
        None
    }
}

/// Notes what is told before the first write.
#[derive(Default)]
struct Note {
    intent: Cell<Option<Intent>>,
    quiet: Cell<bool>,
    invalidated: Cell<bool>,
    refuse: bool,
}

impl Hooks for Note {
    fn verified(&self, intent: Intent) {
        assert!(!self.quiet.get());
        self.intent.set(Some(intent));
    }

    async fn quiesce(&self) -> Result<(), Error> {
        self.quiet.set(true);
        let refused = || Error::Hook { hook: "quiesce", message: "no".into() };
        if self.refuse { Err(refused()) } else { Ok(()) }
    }

    async fn invalidate(&self) -> Result<(), Error> {
        self.invalidated.set(true);
        Ok(())
    }
}

#[test]
fn what_is_kept_makes_a_source_needless_while_weights_are_mixed() {
    let payloads = header(&Case::new(KEPT).patch).segments.iter().filter(|segment| segment.bytes > 0).count();
    for (undo_bytes, reads_in_all) in [(KEPT, payloads + 2), (0, 2 * payloads + 2)] {
        for reads in 0..=reads_in_all {
            let mut case = Case::new(undo_bytes);
            let note = Note::default();
            let source = Failing(&case.patch, reads);
            let result = block_on(case.session.apply(source, &note));
            let mixed = undo_bytes == 0 && reads > payloads + 2 && reads < reads_in_all;
            assert_eq!(result.is_ok(), reads == reads_in_all, "after {reads} reads");
            assert_eq!(case.session.poisoned().is_some(), mixed, "after {reads} reads");
            assert_eq!(case.holds_target(), result.is_ok());
            assert_eq!(case.holds_base(), result.is_err() && !mixed);
            assert_eq!(note.invalidated.get(), note.quiet.get() && !mixed, "whoever was quiet may go on");
        }
    }
}

#[test]
fn undo_is_there_or_said_not_to_be() {
    let mut case = Case::new(KEPT);
    let note = Note::default();
    let applied = block_on(case.session.apply(case.patch.as_slice(), &note)).unwrap();
    let intent = note.intent.get().unwrap();
    assert_eq!((intent.undo_bytes, intent.changes), (applied.undo_bytes, applied.changes));
    assert!(applied.undo_bytes.unwrap() <= 16 * applied.changes, "8 bytes a word, and cells of 8 bytes have two");
    assert_eq!(block_on(case.session.undo(&NoHooks)), Ok(Step(0)));
    assert!(case.holds_base());
    assert_eq!(block_on(case.session.undo(&NoHooks)).unwrap_err().code(), "misuse");

    let mut case = Case::new(applied.undo_bytes.unwrap() - 1);
    let note = Note::default();
    assert_eq!(block_on(case.session.apply(case.patch.as_slice(), &note)).unwrap().undo_bytes, None);
    assert_eq!(note.intent.get().unwrap().undo_bytes, None);
    assert_eq!(block_on(case.session.undo(&NoHooks)).unwrap_err().code(), "misuse");
    assert!(case.holds_target() && case.session.poisoned().is_none());
}

#[test]
fn a_patch_that_is_not_written_does_not_cost_the_undo_of_the_one_before() {
    let mut case = Case::new(KEPT);
    case.apply().unwrap();
    assert_eq!(case.apply().unwrap_err().code(), "stale");
    let options = EncodeOptions { base_step: Step(1), target_step: Step(2), ..Pair::mixed_options() };
    let next = case.pair.reversed().encode(&options);
    let cut = &next[..next.len() - 1];
    assert_eq!(block_on(case.session.apply(cut, &NoHooks)).unwrap_err().code(), "truncated");
    let refusing = Note { refuse: true, ..Note::default() };
    assert_eq!(block_on(case.session.apply(next.as_slice(), &refusing)).unwrap_err().code(), "hook");
    assert_eq!(block_on(case.session.undo(&refusing)).unwrap_err().code(), "hook");
    assert!(case.holds_target() && case.session.poisoned().is_none());
    assert_eq!(block_on(case.session.undo(&NoHooks)), Ok(Step(0)));
    assert!(case.holds_base());
}

/// The engine wrote to a weight after the patch: taking the patch back would not give what was there before.
#[test]
fn weights_that_somebody_wrote_to_are_not_taken_back() {
    let mut case = Case::new(KEPT);
    case.apply().unwrap();
    let TestTensor { name, base, target, .. } = &case.pair.tensors[0];
    let kept = base.chunks(4).zip(target.chunks(4)).position(|(base, target)| base == target).unwrap();
    case.session.memory(name).unwrap().bytes.borrow_mut()[4 * kept] ^= 1;
    let before = case.session.memory(name).unwrap().bytes.borrow().clone();
    assert_eq!(block_on(case.session.undo(&NoHooks)).unwrap_err().code(), "wrong_target");
    assert_eq!(*case.session.memory(name).unwrap().bytes.borrow(), before);
    assert!(case.session.poisoned().is_none());
}

#[test]
fn tied_memory_is_refused_by_name() {
    let bytes = Rc::new(RefCell::new(vec![0; 100]));
    let at = |start| Shared { bytes: bytes.clone(), start, faults: Rc::default() };
    let tensor = |name: &str| Tensor { name: name.into(), dtype: pulse_format::Dtype::Bf16, shape: vec![10] };
    let mut session = Session::new(Options::default());
    session.bind(tensor("embed"), at(10), 10).unwrap();
    for (start, offset) in [(10, 10), (0, 20), (0, 39), (1, 0), (20, 19)] {
        let error = session.bind(tensor("head"), at(start), offset).unwrap_err();
        assert_eq!(error.code(), "binding", "{start} {offset}");
        assert!(error.to_string().contains("overlaps that of embed"), "{error}");
    }
    session.bind(tensor("behind"), at(0), 40).unwrap();
    session.bind(tensor("before"), at(0), 0).unwrap();
}

#[test]
fn memory_held_is_a_segment_two_runs_and_what_is_kept() {
    let pair = Pair::new([TestTensor::weights("w", &[4 << 20], 100, 3)]);
    let patch =
        pair.encode(&EncodeOptions { segment_cells: 1 << 18, target_step: Step(1), ..EncodeOptions::default() });
    let peak = |undo_bytes| {
        let mut session = Session::new(Options { undo_bytes, ..Options::default() });
        session.bind(header(&patch).tensors[0].clone(), pair.base_cells()["w"].clone(), 0).unwrap();
        let (applied, peak) = peak_of(|| block_on(session.apply(patch.as_slice(), &NoHooks)));
        (peak, applied.unwrap().undo_bytes)
    };
    // 8 MiB of cells in 16 segments: two runs of 256 KiB, one segment's payload and changes, and the decoding tables of a model.
    let (without, none) = peak(0);
    assert!(without < 5 << 18 && none.is_none(), "{without} bytes");
    let (with, kept) = peak(KEPT);
    assert!(with < without + patch.len() + 2 * kept.unwrap() as usize, "{with} bytes, {without} without");
}

/// Whatever a poisoned session holds, an anchor replaces all of it; nothing else is taken, and what was mixed is not gone back to.
#[test]
fn an_anchor_makes_a_poisoned_session_sound() {
    let mut case = Case::new(0);
    case.faults.set(2, false);
    case.apply().unwrap_err();
    assert!(case.session.poisoned().is_some());
    let anchor = case.pair.reversed().pack(&EncodeOptions { target_step: Step(0), ..Pair::mixed_options() });
    // It too can fail, and leaves things as they are.
    let fail = block_on(case.session.apply(anchor.as_slice(), &NoHooks)).unwrap_err();
    assert_eq!((fail.code(), case.session.poisoned().is_some()), ("misuse", true));
    case.faults.set(usize::MAX, true);
    assert_eq!(case.apply().unwrap_err().code(), "poisoned");
    block_on(case.session.apply(anchor.as_slice(), &NoHooks)).unwrap();
    assert!(case.session.poisoned().is_none() && case.session.undo_step().is_none() && case.holds_base());
    case.apply().unwrap();
    assert!(case.holds_target());
}
