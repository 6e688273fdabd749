//! What can go wrong with files, checkpoints and patches.

use crate::printable::{printable, shown};
use std::fmt;
use std::path::{Path, PathBuf};

/// Everything the library can answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("{action} {}: {source}", shown(path))]
    Io {
        /// What was tried: a verb in the form "cannot read".
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file is not the checkpoint it should be.
    #[error("{}: {}", shown(path), printable(what))]
    Checkpoint {
        /// Which file or folder.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Two checkpoints, or a patch and a checkpoint, do not hold the same tensors.
    #[error("{0}")]
    Tensors(TensorMismatch),
    /// The target differs from what the patch gives.
    #[error("tensor {} differs from the target at byte {byte} of its data", printable(tensor))]
    TargetDiffers {
        /// Its name.
        tensor: String,
        /// The first difference found in it.
        byte: u64,
    },
    /// The patch is refused: see [`pulse_format::Error`].
    #[error("{}{source}{advice}", path.as_ref().map(|path| format!("{}: ", shown(path))).unwrap_or_default())]
    Patch {
        /// Which file, where it came from one.
        path: Option<PathBuf>,
        /// What the file looks like and what to do, where that is known: it continues the sentence. Else empty.
        advice: String,
        /// Why.
        source: pulse_format::Error,
    },
    /// An option does not fit the input.
    #[error("{}", printable(.0))]
    Usage(String),
    /// Stopped by the caller; nothing was left behind.
    #[error("interrupted; nothing was written")]
    Interrupted,
}

impl Error {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "io",
            Self::Checkpoint { .. } => "checkpoint",
            Self::Tensors(_) => "tensors",
            Self::TargetDiffers { .. } => "wrong_target",
            Self::Patch { source, .. } => source.code(),
            Self::Usage(_) => "usage",
            Self::Interrupted => "interrupted",
        }
    }

    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_path_buf(), source }
    }

    pub(crate) fn checkpoint(path: &Path, what: impl Into<String>) -> Self {
        Self::Checkpoint { path: path.to_path_buf(), what: what.into() }
    }

    /// The same error, with the path of the patch where it is about one.
    pub(crate) fn of_patch(self, path: Option<&Path>) -> Self {
        match self {
            Self::Patch { path: None, source, advice } => {
                Self::Patch { path: path.map(Path::to_path_buf), source, advice }
            }
            other => other,
        }
    }
}

impl From<pulse_format::Error> for Error {
    fn from(source: pulse_format::Error) -> Self {
        Self::Patch { path: None, advice: String::new(), source }
    }
}

/// Which tensors stand in the way of a patch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TensorMismatch {
    /// Only in the base.
    pub removed: Vec<String>,
    /// Only in the target.
    pub added: Vec<String>,
    /// In both, with another dtype or shape: name, before, after.
    pub changed: Vec<(String, String, String)>,
    /// A way on, where there is one besides an anchor.
    pub advice: Option<&'static str>,
}

impl TensorMismatch {
    pub(crate) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty() && self.changed.is_empty()
    }
}

impl fmt::Display for TensorMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        f.write_str(
            "the two do not hold the same tensors; a patch cannot bridge that, publish an anchor (`pulse pack`)",
        )?;
        let lists = [("only in the base", &self.removed), ("only in the target", &self.added)];
        for (title, names) in lists.into_iter().filter(|(_, names)| !names.is_empty()) {
            let shown = names.iter().take(SHOWN).map(|name| printable(name)).collect::<Vec<_>>().join(", ");
            let more = names.len().saturating_sub(SHOWN);
            write!(f, "\n  {title}: {shown}")?;
            if more > 0 {
                write!(f, " and {more} more")?;
            }
        }
        for (name, before, after) in self.changed.iter().take(SHOWN) {
            write!(f, "\n  {}: {before} before, {after} after", printable(name))?;
        }
        match self.changed.len().saturating_sub(SHOWN) {
            0 => {}
            more => write!(f, "\n  and {more} more with another dtype or shape")?,
        }
        self.advice.map_or(Ok(()), |advice| write!(f, "\n{advice}"))
    }
}
