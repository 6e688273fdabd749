//! A device that fails at every call in turn, and callers that lose patience at every wait: the old weights, the new ones, or a
//! session that says it is poisoned.

use crate::support::cells::Pair;
use crate::support::gpu::{Bound, TestPort};
use pulse_applier_wasm::gpu::port::{Command, Usage};
use pulse_applier_wasm::gpu::{DeviceLimits, Layout, Options, Port, TwinPort};
use pulse_applier_wasm::{Error, NoHooks};
use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// A twin that is lost from some call on, and lets its caller wait before each answer.
struct FailingPort {
    inner: TwinPort,
    calls_left: Cell<Option<usize>>,
}

impl FailingPort {
    fn call(&self) -> Result<(), Error> {
        let lost = Error::DeviceLost { message: "pulled out".into() };
        match self.calls_left.get() {
            None => Ok(()),
            Some(0) => Err(lost),
            Some(left) => {
                self.calls_left.set(Some(left - 1));
                Ok(())
            }
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

impl Port for FailingPort {
    type Buffer = <TwinPort as Port>::Buffer;

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
        self.call()?;
        self.inner.create(label, bytes, usage)
    }

    fn destroy(&self, buffer: &Self::Buffer) {
        self.inner.destroy(buffer);
    }

    fn write(&self, buffer: &Self::Buffer, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.call()?;
        self.inner.write(buffer, offset, bytes)
    }

    fn submit(&self, commands: &[Command<Self::Buffer>]) -> Result<(), Error> {
        self.call()?;
        self.inner.submit(commands)
    }

    async fn read(&self, buffer: &Self::Buffer, offset: u64, bytes: u64) -> Result<Vec<u8>, Error> {
        wait().await;
        self.call()?;
        self.inner.read(buffer, offset, bytes).await
    }

    async fn settle(&self) -> Result<(), Error> {
        wait().await;
        self.call()
    }
}

impl TestPort for FailingPort {
    fn open(limits: DeviceLimits) -> Self {
        Self { inner: TwinPort::new(limits), calls_left: Cell::new(None) }
    }

    fn content(&self, buffer: &Self::Buffer) -> Vec<u8> {
        // The test sees the memory of a lost device, too.
        self.inner.content(buffer)
    }
}

/// A few kilobytes, in one batch and in several.
fn cases() -> impl Iterator<Item = (Vec<u8>, Bound<FailingPort>)> {
    [16 << 20, 1 << 13].into_iter().map(|scratch_bytes| {
        let pair = Pair::mixed();
        let options = Options { step: Some(0), scratch_bytes, ..Options::default() };
        let port = FailingPort::open(DeviceLimits::DEFAULT);
        (pair.encode(&Pair::mixed_options()), Bound::new(&pair, &Layout::default(), port, options))
    })
}

/// Whole weights or a session that knows better; returns whether it is poisoned.
fn check_whole(bound: &Bound<FailingPort>, what: &str) -> bool {
    let poisoned = bound.session.poisoned().is_some();
    assert!(poisoned || bound.holds_base() || bound.holds_target(), "{what}: mixed weights, unnoticed");
    poisoned
}

#[test]
fn a_device_lost_at_any_call_is_reported() {
    for case in 0..2 {
        let (mut before, mut poisoned) = (0, 0);
        for calls in 0.. {
            let (patch, mut bound) = cases().nth(case).unwrap();
            bound.session.port().calls_left.set(Some(calls));
            let result = pollster::block_on(bound.session.apply(patch.as_slice(), &NoHooks));
            bound.session.port().calls_left.set(None);
            let Err(error) = result else {
                assert!(bound.holds_target());
                break;
            };
            assert_eq!(error.code(), "device_lost", "call {calls}");
            if check_whole(&bound, &format!("call {calls}")) {
                poisoned += 1;
                let later = pollster::block_on(bound.session.apply(patch.as_slice(), &NoHooks)).unwrap_err();
                assert_eq!(later.code(), "poisoned");
                let later = pollster::block_on(bound.session.fingerprint(1)).unwrap_err();
                assert_eq!(later.code(), "poisoned");
            } else {
                before += 1;
                assert!(bound.holds_base(), "nothing is written before the session is marked");
                pollster::block_on(bound.session.apply(patch.as_slice(), &NoHooks)).unwrap();
                assert!(bound.holds_target(), "a device that comes back is used again");
            }
        }
        assert!(before > 5 && poisoned > 2, "{before} {poisoned}");
    }
}

#[test]
fn an_undo_that_fails_poisons() {
    for calls in 0.. {
        let (patch, mut bound) = cases().next().unwrap();
        pollster::block_on(bound.session.apply(patch.as_slice(), &NoHooks)).unwrap();
        bound.session.port().calls_left.set(Some(calls));
        let result = pollster::block_on(bound.session.undo(&NoHooks));
        bound.session.port().calls_left.set(None);
        if result.is_ok() {
            assert!(bound.holds_base() && calls > 2);
            break;
        }
        assert!(check_whole(&bound, &format!("call {calls}")));
    }
}

#[test]
fn an_apply_dropped_at_any_wait_is_noticed() {
    for case in 0..2 {
        let (mut before, mut poisoned) = (0, 0);
        for waits in 1.. {
            let (patch, mut bound) = cases().nth(case).unwrap();
            let done = {
                let mut apply = pin!(bound.session.apply(patch.as_slice(), &NoHooks));
                let mut context = Context::from_waker(Waker::noop());
                (0..waits).any(|_| apply.as_mut().poll(&mut context).is_ready())
            };
            if done {
                assert!(bound.holds_target());
                break;
            }
            match check_whole(&bound, &format!("wait {waits}")) {
                true => poisoned += 1,
                false => before += 1,
            }
        }
        assert!(before > 0 && poisoned > 0, "{before} {poisoned}");
    }
}
