//! What all formats have in common.

use crate::grail::Grail;
use crate::pulsept1::PulsePt1;
use crate::trl::Trl;
use crate::xor::Xor;
use crate::{Checkpoint, Error, Limits, SparsePatch, Steps};

/// A patch format with its writer and its reader.
pub trait PatchFormat: Send + Sync {
    /// Name and version, stable.
    fn name(&self) -> &'static str;

    /// Compares two checkpoints and writes what differs.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the checkpoints are not laid out alike; [`Error::Unsupported`] when a tensor is larger
    /// than the format can say.
    fn encode(&self, steps: Steps, base: &Checkpoint<'_>, target: &Checkpoint<'_>) -> Result<Vec<u8>, Error>;

    /// Reads a patch against its base and verifies whatever digests it carries.
    ///
    /// # Errors
    /// Any but [`Error::Misuse`], for any bytes; never a panic.
    fn decode(&self, bytes: &[u8], base: &Checkpoint<'_>, limits: &Limits) -> Result<SparsePatch, Error>;

    /// Turns `cells`, one vector per tensor and equal to the base, into the target.
    ///
    /// # Errors
    /// Those of [`decode`](PatchFormat::decode), and [`Error::Misuse`] when `cells` is not laid out as `base`. After an
    /// error `cells` equals the base again.
    fn apply(&self, bytes: &[u8], base: &Checkpoint<'_>, cells: &mut [Vec<u16>], limits: &Limits) -> Result<(), Error> {
        base.check_room(cells)?;
        self.decode(bytes, base, limits)?.apply(base, cells)
    }
}

/// Every format and version there is.
pub fn all() -> Vec<Box<dyn PatchFormat>> {
    vec![
        Box::new(Trl::V1),
        Box::new(Trl::GapDelta),
        Box::new(Grail::V2),
        Box::new(Grail::V3),
        Box::new(Grail::V3_1),
        Box::new(PulsePt1::v1()),
        Box::new(PulsePt1::v2()),
        Box::new(PulsePt1::v3()),
        Box::new(Xor),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn names_are_distinct() {
        let formats = super::all();
        let names: BTreeSet<_> = formats.iter().map(|format| format.name()).collect();
        assert_eq!(names.len(), formats.len());
    }
}
