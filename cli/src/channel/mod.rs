//! The verbs of a channel.

pub(crate) mod follow;
pub(crate) mod gc;
pub(crate) mod hooks;
pub(crate) mod key;
pub(crate) mod publish;
pub(crate) mod renew;
pub(crate) mod serve;
pub(crate) mod state;
pub(crate) mod status;
pub(crate) mod watch;
