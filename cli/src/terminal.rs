//! Progress on a terminal, none in a pipe; Ctrl-C as a flag.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pulse_encoder::Progress;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// The work asks whether to stop from here on; before, a pipe may keep this process waiting.
static WORKING: AtomicBool = AtomicBool::new(false);

fn interrupt() {
    let again = INTERRUPTED.swap(true, Ordering::Relaxed);
    if again || !WORKING.load(Ordering::Relaxed) {
        let said = if again { "interrupted again" } else { "interrupted; nothing was written" };
        let _ = writeln!(std::io::stderr(), "pulse: {said}");
        std::process::exit(130);
    }
}

pub(crate) struct Terminal {
    bar: ProgressBar,
}

impl Terminal {
    pub(crate) fn new(quiet: bool) -> Self {
        // Without a handler Ctrl-C still stops the process; only temporary files would stay.
        if let Err(error) = ctrlc::set_handler(interrupt) {
            let _ = writeln!(std::io::stderr(), "pulse: Ctrl-C will leave temporary files behind: {error}");
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if !quiet {
            // Hidden by itself where standard error is no terminal.
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        let template = "{bar:40} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { bar }
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for Terminal {
    fn start(&self, bytes: u64) {
        WORKING.store(true, Ordering::Relaxed);
        self.bar.set_length(bytes);
        self.bar.set_position(0);
        self.bar.enable_steady_tick(Duration::from_millis(100));
    }

    fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    fn is_cancelled(&self) -> bool {
        INTERRUPTED.load(Ordering::Relaxed)
    }
}
