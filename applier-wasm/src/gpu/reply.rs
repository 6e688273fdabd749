//! What a device's callback answers, to be asked for or waited for.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The answer of a callback; the first counts.
#[derive(Debug, Default)]
pub(crate) struct Reply(Mutex<(Option<bool>, Option<Waker>)>);

impl Reply {
    pub(crate) fn give(&self, mapped: bool) {
        let mut state = lock(&self.0);
        state.0.get_or_insert(mapped);
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn given(&self) -> Option<bool> {
        lock(&self.0).0
    }

    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<bool> {
        let mut state = lock(&self.0);
        state.1 = Some(context.waker().clone());
        state.0.map_or(Poll::Pending, Poll::Ready)
    }
}
