//! What ends a command: the errors of every library that it stands on, each with a stable name.

use std::fmt::Display;

/// An error for people by its text, for programs by its code.
pub(crate) trait Failure: Display + Send {
    fn code(&self) -> &str;

    /// The exit code of the process.
    fn exit_code(&self) -> u8 {
        match self.code() {
            "usage" | "misuse" => 2,
            "damaged" | "truncated" => 3,
            "wrong_base" | "wrong_target" | "tensors" => 4,
            "unsupported" | "limit" => 5,
            "signature" | "key" | "rollback" | "fork" | "wrong_run" | "expired" | "clock" | "swapped" => 6,
            "interrupted" => 130,
            _ => 1,
        }
    }
}

impl Failure for pulse_encoder::Error {
    fn code(&self) -> &str {
        self.code()
    }
}

impl Failure for pulse_channel::store::Error {
    fn code(&self) -> &str {
        self.code()
    }
}

impl Failure for pulse_serve::Error {
    fn code(&self) -> &str {
        self.code()
    }
}

/// Any of them.
pub(crate) type AnyFailure = Box<dyn Failure>;

impl<E: Failure + 'static> From<E> for AnyFailure {
    fn from(error: E) -> Self {
        Box::new(error)
    }
}
