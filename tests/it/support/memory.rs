//! How much memory a piece of work takes, measured at the allocator.
#![expect(unsafe_code, reason = "an allocator cannot be written without; this one only counts and hands on")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// A measured thread may not hold more than this: a lie that is believed ends the run instead of the machine.
const CAP_BYTES: usize = 1 << 30;

thread_local! {
    /// Bytes held since the measurement began, and the most there were; `None` outside a measurement.
    static HELD: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

/// The most that the calling thread held at once during `work`, over what it held before. The C heap of zstd is not counted.
pub(crate) fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    HELD.set(Some((0, 0)));
    let result = work();
    let (_, peak) = HELD.take().unwrap_or_default();
    (result, peak)
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Whether `bytes` more may be taken.
fn take(bytes: usize) -> bool {
    let allowed = HELD.try_with(|state| {
        let Some((held, peak)) = state.get() else { return true };
        let held = held.saturating_add(bytes);
        let allowed = held <= CAP_BYTES;
        if allowed {
            state.set(Some((held, peak.max(held))));
        }
        allowed
    });
    allowed.unwrap_or(true)
}

fn give(bytes: usize) {
    let _ = HELD.try_with(|state| {
        if let Some((held, peak)) = state.get() {
            state.set(Some((held.saturating_sub(bytes), peak)));
        }
    });
}

// SAFETY: every call goes to `System` with the arguments it came with, or returns null, which means that there is no memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise about `layout` is passed on.
        if take(layout.size()) { unsafe { System.alloc(layout) } } else { std::ptr::null_mut() }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise about `layout` is passed on.
        if take(layout.size()) { unsafe { System.alloc_zeroed(layout) } } else { std::ptr::null_mut() }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if !take(new_size) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise about all three is passed on; the memory came from `System`.
        let moved = unsafe { System.realloc(pointer, layout, new_size) };
        give(layout.size());
        moved
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        give(layout.size());
        // SAFETY: the caller's promise about both is passed on; the memory came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}
