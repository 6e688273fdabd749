//! Times and memory of this process.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Runs `work` `runs` times and returns its last result and the median time.
pub fn timed<T>(runs: usize, mut work: impl FnMut() -> T) -> (T, Duration) {
    let mut once = || {
        let start = Instant::now();
        let result = work();
        (result, start.elapsed())
    };
    let (mut result, first) = once();
    let mut times = vec![first];
    for _ in 1..runs {
        let (next, time) = once();
        result = next;
        times.push(time);
    }
    times.sort();
    (result, times[times.len() / 2])
}

/// Bytes of anonymous memory (not mapped files) that process `id` holds now; `None` where `/proc` does not say.
pub fn anonymous_bytes(id: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// Runs `work` and returns its result and the most anonymous memory above the start that a look every 2 ms saw.
pub fn peak_memory<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = anonymous_bytes("self").unwrap_or_default();
    let (peak, done) = (AtomicU64::new(before), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                peak.fetch_max(anonymous_bytes("self").unwrap_or_default(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        let last = anonymous_bytes("self").unwrap_or_default();
        (result, peak.load(Ordering::Relaxed).max(last).saturating_sub(before))
    })
}
