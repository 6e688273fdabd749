//! What can go wrong, by who is at fault.

/// Why a patch could not be written, read or applied.
///
/// The variants tell the caller what to do: fetch the bytes again ([`Damaged`](Error::Damaged),
/// [`Truncated`](Error::Truncated)), plan another path ([`WrongBase`](Error::WrongBase)), give up
/// ([`Unsupported`](Error::Unsupported)), allow more ([`Limit`](Error::Limit)) or mend the call
/// ([`Misuse`](Error::Misuse)).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes contradict themselves or the format.
    #[error("damaged patch at {at}: {what}")]
    Damaged {
        /// Section and, where there is one, tensor.
        at: String,
        /// What was found, and what the format demands.
        what: String,
    },
    /// The bytes end too early.
    #[error("patch cut short at {at}: at least {needed} bytes needed, {found} there")]
    Truncated {
        /// Section and, where there is one, tensor.
        at: String,
        /// Least number of bytes that the section needs.
        needed: u64,
        /// Number of bytes there are for it.
        found: u64,
    },
    /// A version, dtype, encoding or size that this reader or writer does not know, or that the format cannot hold.
    #[error("unsupported patch at {at}: {what}")]
    Unsupported {
        /// Section and, where there is one, tensor.
        at: String,
        /// What is not supported.
        what: String,
    },
    /// The patch was made for another checkpoint than the one given.
    ///
    /// XOR patches, and PULSEPT1 patches without a digest of their base, only say what the result must be;
    /// there, damage that decodes is reported here as well.
    #[error("patch does not fit this base at {tensor}: expected {expected}, found {found}")]
    WrongBase {
        /// Name of the tensor, or `state` for the whole checkpoint.
        tensor: String,
        /// Shape or digest that the patch was made for.
        expected: String,
        /// Shape or digest of what was given.
        found: String,
    },
    /// Reading on would cost more than [`Limits`](crate::Limits) allows.
    #[error("limit on {what} exceeded: {needed} needed, {allowed} left")]
    Limit {
        /// What is limited.
        what: &'static str,
        /// Amount that the next step needs.
        needed: u64,
        /// Amount that is left.
        allowed: u64,
    },
    /// The caller's arguments contradict each other.
    #[error("misuse: {what}")]
    Misuse {
        /// What contradicts what.
        what: String,
    },
}

impl Error {
    /// Stable identifier of the variant, for callers in other languages.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Damaged { .. } => "damaged",
            Self::Truncated { .. } => "truncated",
            Self::Unsupported { .. } => "unsupported",
            Self::WrongBase { .. } => "wrong_base",
            Self::Limit { .. } => "limit",
            Self::Misuse { .. } => "misuse",
        }
    }

    pub(crate) fn damaged(at: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Damaged { at: at.into(), what: what.into() }
    }

    pub(crate) fn truncated(at: impl Into<String>, needed: usize, found: usize) -> Self {
        Self::Truncated { at: at.into(), needed: needed as u64, found: found as u64 }
    }

    pub(crate) fn unsupported(at: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Unsupported { at: at.into(), what: what.into() }
    }

    pub(crate) fn wrong_base(tensor: impl Into<String>, expected: impl ToString, found: impl ToString) -> Self {
        Self::WrongBase { tensor: tensor.into(), expected: expected.to_string(), found: found.to_string() }
    }

    pub(crate) fn misuse(what: impl Into<String>) -> Self {
        Self::Misuse { what: what.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::Error;

    #[test]
    fn messages_say_where_and_what() {
        let cases = [
            (Error::damaged("header", "not JSON"), "damaged", "damaged patch at header: not JSON"),
            (
                Error::truncated("magic", 8, 3),
                "truncated",
                "patch cut short at magic: at least 8 bytes needed, 3 there",
            ),
            (Error::unsupported("w", "dtype F8"), "unsupported", "unsupported patch at w: dtype F8"),
            (
                Error::wrong_base("w", "[2, 2]", "[4]"),
                "wrong_base",
                "patch does not fit this base at w: expected [2, 2], found [4]",
            ),
            (
                Error::Limit { what: "bytes", needed: 9, allowed: 5 },
                "limit",
                "limit on bytes exceeded: 9 needed, 5 left",
            ),
            (Error::misuse("two names"), "misuse", "misuse: two names"),
        ];
        for (error, code, message) in cases {
            assert_eq!(error.code(), code);
            assert_eq!(error.to_string(), message);
        }
    }
}
