//! A device that fails at every call in turn, and callers that lose patience at every wait: the old weights, the new ones, or a
//! session that says it is poisoned. A device that fails once ends old and usable, however many batches the patch has.

use crate::support::cells::Pair;
use crate::support::gpu::{Bound, TestPort, on_every_port};
use pulse_applier_wasm::gpu::port::{Command, Usage};
use pulse_applier_wasm::gpu::{DeviceLimits, Layout, Port};
use pulse_applier_wasm::{Error, Hooks, Intent, NoHooks, Options, Phase, Progress};
use pulse_encoder::EncodeOptions;
use pulse_format::Step;
use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// When a device fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Never,
    /// From call `n` on.
    From(usize),
    /// At call `n` alone, with nothing done.
    At(usize),
    /// At call `n` alone, and yet it was done: as where a device tells only later, or tells wrongly.
    After(usize),
}

/// A port that fails where it is told to, and lets its caller wait before each answer.
struct FailingPort<P> {
    inner: P,
    fault: Cell<Fault>,
    calls: Cell<usize>,
}

impl<P> FailingPort<P> {
    fn fail(&self, fault: Fault) {
        self.calls.set(0);
        self.fault.set(fault);
    }

    fn call<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let call = self.calls.replace(self.calls.get() + 1);
        let lost = || Error::DeviceLost { message: "pulled out".into() };
        match self.fault.get() {
            Fault::From(first) if call >= first => Err(lost()),
            Fault::At(at) if call == at => Err(lost()),
            Fault::After(at) if call == at => work().and_then(|_| Err(lost())),
            _ => work(),
        }
    }
}

/// Pending once, then ready.
async fn wait() {
    let mut waited = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl<P: Port> Port for FailingPort<P> {
    type Buffer = P::Buffer;

    fn limits(&self) -> DeviceLimits {
        self.inner.limits()
    }

    fn size(&self, buffer: &Self::Buffer) -> u64 {
        self.inner.size(buffer)
    }

    fn usable(&self, buffer: &Self::Buffer) -> bool {
        self.inner.usable(buffer)
    }

    fn create(&self, label: &'static str, bytes: u64, usage: Usage) -> Result<Self::Buffer, Error> {
        self.call(|| self.inner.create(label, bytes, usage))
    }

    fn destroy(&self, buffer: &Self::Buffer) {
        self.inner.destroy(buffer);
    }

    fn write(&self, buffer: &Self::Buffer, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.call(|| self.inner.write(buffer, offset, bytes))
    }

    fn submit(&self, commands: &[Command<Self::Buffer>]) -> Result<(), Error> {
        self.call(|| self.inner.submit(commands))
    }

    async fn read(&self, buffer: &Self::Buffer, offset: u64, bytes: u64) -> Result<Vec<u8>, Error> {
        wait().await;
        let read = self.inner.read(buffer, offset, bytes).await;
        self.call(|| read)
    }

    async fn settle(&self) -> Result<(), Error> {
        wait().await;
        let settled = self.inner.settle().await;
        self.call(|| settled)
    }
}

impl<P: TestPort> TestPort for FailingPort<P> {
    fn open(limits: DeviceLimits) -> Self {
        Self { inner: P::open(limits), fault: Cell::new(Fault::Never), calls: Cell::new(0) }
    }

    fn content(&self, buffer: &Self::Buffer) -> Vec<u8> {
        // The test sees the memory of a lost device, too.
        self.inner.content(buffer)
    }
}

/// A few kilobytes in one batch, in several, and in several that are not kept.
const CASES: [(u64, u64); 3] = [(16 << 20, 1 << 20), (1 << 11, 1 << 20), (1 << 11, 0)];

fn case<P: TestPort>((scratch_bytes, undo_bytes): (u64, u64)) -> (Vec<u8>, Bound<FailingPort<P>>) {
    let pair = Pair::mixed();
    let options = Options { step: Some(Step(0)), scratch_bytes, undo_bytes, ..Options::default() };
    let port = FailingPort::open(DeviceLimits::DEFAULT);
    (pair.encode(&Pair::mixed_options()), Bound::new(&pair, &Layout::default(), port, options))
}

fn apply<P: TestPort>(bound: &mut Bound<FailingPort<P>>, patch: &[u8]) -> Result<Step, Error> {
    pollster::block_on(bound.session.apply(patch, &NoHooks)).map(|applied| applied.target_step)
}

fn undo<P: TestPort>(bound: &mut Bound<FailingPort<P>>) -> Result<Step, Error> {
    pollster::block_on(bound.session.undo(&NoHooks))
}

/// Whole weights or a session that knows better; returns whether it is poisoned.
fn check_whole<P: TestPort>(bound: &Bound<FailingPort<P>>, what: &str) -> bool {
    let poisoned = bound.session.poisoned().is_some();
    assert!(poisoned || bound.holds_base() || bound.holds_target(), "{what}: mixed weights, unnoticed");
    poisoned
}

fn a_device_that_fails_once_ends_old_and_usable<P: TestPort>() {
    for kept in &CASES[..2] {
        for fault in [Fault::At, Fault::After] {
            let mut failures = [0, 0];
            for calls in 0.. {
                let (patch, mut bound) = case::<P>(*kept);
                let what = format!("{kept:?}, {:?}", fault(calls));
                bound.session.port().fail(fault(calls));
                let applied = apply(&mut bound, &patch);
                bound.session.port().fail(Fault::Never);
                let Err(error) = applied else { break };
                failures[0] += 1;
                assert_eq!((error.code(), bound.session.poisoned()), ("device_lost", None), "{what}");
                assert!(bound.holds_base() && bound.session.step() == Some(Step(0)), "{what}");
                assert_eq!(apply(&mut bound, &patch), Ok(Step(1)), "{what}");
                assert!(bound.holds_target(), "{what}");
            }
            let (patch, mut bound) = case::<P>(*kept);
            apply(&mut bound, &patch).unwrap();
            for calls in 0.. {
                bound.session.port().fail(fault(calls));
                let undone = undo(&mut bound);
                bound.session.port().fail(Fault::Never);
                let Err(error) = undone else { break };
                failures[1] += 1;
                assert_eq!((error.code(), bound.session.poisoned()), ("device_lost", None), "undo, {:?}", fault(calls));
                assert!(bound.holds_target() && bound.session.undo_step() == Some(Step(0)), "undo, {:?}", fault(calls));
            }
            assert!(bound.holds_base() && bound.session.step() == Some(Step(0)));
            let several = kept.0 < 1 << 20;
            assert!(failures[0] >= if several { 30 } else { 9 }, "{kept:?}: {failures:?}");
            assert!(failures[1] >= if several { 10 } else { 3 }, "{kept:?}: {failures:?}");
        }
    }
}

fn a_lost_device_is_reported<P: TestPort>() {
    for kept in CASES {
        let (mut before, mut poisoned) = (0, 0);
        for calls in 0.. {
            let (patch, mut bound) = case::<P>(kept);
            bound.session.port().fail(Fault::From(calls));
            let result = apply(&mut bound, &patch);
            bound.session.port().fail(Fault::Never);
            let Err(error) = result else {
                assert!(bound.holds_target());
                break;
            };
            assert_eq!(error.code(), "device_lost", "call {calls}");
            if check_whole(&bound, &format!("{kept:?}, call {calls}")) {
                poisoned += 1;
                assert_eq!(apply(&mut bound, &patch).unwrap_err().code(), "poisoned");
                assert_eq!(undo(&mut bound).unwrap_err().code(), "poisoned");
                let later = pollster::block_on(bound.session.fingerprint(1)).unwrap_err();
                assert_eq!(later.code(), "poisoned");
            } else {
                before += 1;
                assert!(bound.holds_base(), "nothing is written before the session is marked");
                apply(&mut bound, &patch).unwrap();
                assert!(bound.holds_target(), "a device that comes back is used again");
            }
        }
        assert!(before > 5 && poisoned > 1, "{kept:?}: {before} {poisoned}");
    }
}

/// Without what is kept, a failure in the first batch is still taken back, one in a later batch poisons, and undo is refused.
fn over_the_limit_it_is_said_before_the_first_write<P: TestPort>() {
    #[derive(Default)]
    struct Note {
        intent: Cell<Option<Intent>>,
        writing: Cell<bool>,
    }
    impl Hooks for Note {
        fn verified(&self, intent: Intent) {
            assert!(!self.writing.get());
            self.intent.set(Some(intent));
        }

        fn progress(&self, progress: Progress) {
            self.writing.set(progress.phase == Phase::Write);
        }
    }
    for (kept, undo_is_there) in CASES.into_iter().zip([true, true, false]) {
        let (patch, mut bound) = case::<P>(kept);
        let note = Note::default();
        let applied = pollster::block_on(bound.session.apply(patch.as_slice(), &note)).unwrap();
        assert_eq!(note.intent.get().unwrap().undo_bytes, applied.undo_bytes);
        assert_eq!(applied.undo_bytes.is_some(), undo_is_there);
        let each = applied.undo_bytes.map(|bytes| bytes as f64 / applied.changes as f64);
        assert!(each.is_none_or(|each| (4.0..12.0).contains(&each)), "{each:?} bytes a change");
        let undone = undo(&mut bound).map_err(|error| error.code());
        assert_eq!(undone, if undo_is_there { Ok(Step(0)) } else { Err("misuse") });
        assert!(if undo_is_there { bound.holds_base() } else { bound.holds_target() });
        assert_eq!(bound.session.poisoned(), None);
    }
    let outcomes = (0..).map_while(|calls| {
        let (patch, mut bound) = case::<P>(CASES[2]);
        bound.session.port().fail(Fault::At(calls));
        let failed = apply(&mut bound, &patch).is_err();
        failed.then(|| check_whole(&bound, &format!("call {calls}")))
    });
    let outcomes: Vec<bool> = outcomes.collect();
    let first_poisoned = outcomes.iter().position(|poisoned| *poisoned).unwrap();
    assert!(outcomes[first_poisoned..].iter().all(|poisoned| *poisoned), "{outcomes:?}");
}

/// Neither a damaged patch, nor one that the engine refuses to wait for, nor one that fails while it is written, costs the undo of the
/// patch before.
fn the_undo_of_the_patch_before_stays<P: TestPort>() {
    struct Refuse;
    impl Hooks for Refuse {
        async fn quiesce(&self) -> Result<(), Error> {
            Err(Error::Hook { hook: "quiesce", message: "no".into() })
        }
    }
    for kept in &CASES[..2] {
        let (patch, mut bound) = case::<P>(*kept);
        apply(&mut bound, &patch).unwrap();
        let options = EncodeOptions { base_step: Step(1), target_step: Step(2), ..Pair::mixed_options() };
        let back = Pair::mixed().reversed().encode(&options);
        assert_eq!(apply(&mut bound, &back[..back.len() - 1]).unwrap_err().code(), "truncated");
        assert_eq!(pollster::block_on(bound.session.apply(back.as_slice(), &Refuse)).unwrap_err().code(), "hook");
        assert_eq!(pollster::block_on(bound.session.undo(&Refuse)).unwrap_err().code(), "hook");
        for calls in 0.. {
            bound.session.port().fail(Fault::At(calls));
            let applied = apply(&mut bound, &back);
            bound.session.port().fail(Fault::Never);
            match applied {
                Ok(step) => {
                    assert_eq!(
                        (step, bound.session.undo_step()),
                        (Step(2), Some(Step(1))),
                        "the later patch goes first"
                    );
                    break;
                }
                Err(_) => assert!(bound.holds_target() && bound.session.undo_step() == Some(Step(0)), "call {calls}"),
            }
            if calls % 5 == 0 {
                assert_eq!(undo(&mut bound), Ok(Step(0)), "call {calls}");
                assert!(bound.holds_base());
                apply(&mut bound, &patch).unwrap();
            }
        }
    }
}

fn an_apply_dropped_at_any_wait_is_noticed<P: TestPort>() {
    for kept in CASES {
        let (mut before, mut poisoned) = (0, 0);
        for waits in 1.. {
            let (patch, mut bound) = case::<P>(kept);
            let done = {
                let mut apply = pin!(bound.session.apply(patch.as_slice(), &NoHooks));
                let mut context = Context::from_waker(Waker::noop());
                (0..waits).any(|_| apply.as_mut().poll(&mut context).is_ready())
            };
            if done {
                assert!(bound.holds_target());
                break;
            }
            match check_whole(&bound, &format!("{kept:?}, wait {waits}")) {
                true => poisoned += 1,
                false => {
                    before += 1;
                    assert!(bound.holds_base());
                    apply(&mut bound, &patch).unwrap();
                    assert!(bound.holds_target());
                }
            }
        }
        assert!(before > 0 && poisoned > 0, "{before} {poisoned}");
    }
}

on_every_port! {
    a_device_that_fails_once_ends_old_and_usable a_lost_device_is_reported
    over_the_limit_it_is_said_before_the_first_write the_undo_of_the_patch_before_stays
    an_apply_dropped_at_any_wait_is_noticed
}
