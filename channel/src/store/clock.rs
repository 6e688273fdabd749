//! What time it is, and how long to wait.

use crate::time::Time;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// This machine's time.
pub fn now() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

/// The `Date` of an HTTP answer.
pub(crate) fn http_date(text: &str) -> Option<Time> {
    let time = httpdate::parse_http_date(text).ok()?;
    Some(Time(time.duration_since(UNIX_EPOCH).ok()?.as_secs()))
}

/// A random share of `longest`, from a half to the whole: waiting receivers do not come back at once.
pub(crate) fn jittered(longest: Duration) -> Duration {
    let mut random = [0; 4];
    // Without randomness all wait the same, which is worse and not wrong.
    let _ = getrandom::fill(&mut random);
    let share = f64::from(u32::from_le_bytes(random)) / f64::from(u32::MAX);
    longest.mul_f64(0.5 + share / 2.0)
}

/// How long to wait before try `attempt`, counted from 1: from half a second, doubling, to half a minute.
pub(crate) fn backoff(attempt: u32) -> Duration {
    jittered(Duration::from_millis(500) * 2u32.pow(attempt.clamp(1, 7) - 1)).min(Duration::from_secs(30))
}
