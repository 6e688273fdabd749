//! The head as it is now, looked at again and again.
//!
//! By looking alone: a folder on a network disk sends no events, and a look costs one small read.

use crate::files::Folder;
use pulse_channel::{Hash, SignedHead, hash};
use std::time::Duration;
use tokio::sync::watch;

/// What is told of a head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Watched {
    pub(crate) hash: Hash,
    pub(crate) sequence: u64,
    pub(crate) step: u64,
    pub(crate) created: u64,
    pub(crate) expires: u64,
}

impl Watched {
    /// `None` for bytes that are no head: they are served as they are, and told of as none.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let signed = SignedHead::parse(bytes).ok()?;
        let head = signed.unverified();
        let (created, expires) = (head.created.0, head.expires.0);
        Some(Self { hash: hash(bytes), sequence: head.sequence, step: head.step, created, expires })
    }
}

/// Looks every `poll`, and tells of changes, until nobody listens.
pub(crate) async fn look(folder: Folder, poll: Duration, tell: watch::Sender<Option<Watched>>) {
    loop {
        if let Ok(Some(bytes)) = folder.head().await {
            let head = Watched::read(&bytes);
            tell.send_if_modified(|told| {
                let changed = head.is_some() && *told != head;
                if changed {
                    tracing::info!(step = head.as_ref().map(|head| head.step), "the head is a new one");
                    told.clone_from(&head);
                }
                changed
            });
        }
        tokio::select! {
            () = tokio::time::sleep(poll) => {}
            () = tell.closed() => return,
        }
    }
}
