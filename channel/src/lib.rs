//! A channel: a published series of checkpoints, as a folder of immutable objects and one signed head that any static host can serve.
//!
//! A receiver reads the head, trusts it by a pinned key and by what it remembers, and plans the fewest bytes to the newest step:
//!
//! ```
//! use pulse_channel::{Clock, Held, PublicKey, plan, receive};
//! # fn verify(_: &pulse_channel::Check) -> bool { true }
//! # fn fetch(_: &str) -> Result<Vec<u8>, pulse_channel::Error> { unreachable!() }
//! # fn now() -> pulse_channel::Time { pulse_channel::Time(0) }
//! fn update(bytes: &[u8], pinned: &PublicKey, held: Option<Held>) -> Result<(), pulse_channel::Error> {
//!     let clock = Clock { local: now(), server: None };
//!     let (trusted, _mark) = receive(bytes, pinned, None, &clock, verify)?;
//!     let path = plan(&trusted.head, None, held, &|entry| entry.bytes, |page| fetch(&page.path()))?;
//!     println!("{} objects, {} bytes to step {}", path.entries.len(), path.bytes, path.goal);
//!     Ok(())
//! }
//! ```
//!
//! This core does no IO: it serves the command line, the publisher and the follower of the feature `store`, and the npm package. What the bytes
//! mean is in `channel/CHANNEL.md`.
#![forbid(unsafe_code)]

mod costs;
mod entry;
mod error;
mod head;
mod hex;
mod json;
pub mod layout;
mod page;
mod plan;
mod retention;
mod rotation;
mod signed;
#[cfg(feature = "store")]
pub mod store;
mod time;
mod trust;

pub use costs::{Costs, costs};
pub use entry::{Entry, Kind, object_path, parse_object_name};
pub use error::{ClockNote, Error};
pub use head::Head;
pub use hex::{Hash, Hex, NotHex, PublicKey, Signature, hash};
pub use page::{Page, PageRef, WrittenPage};
pub use plan::{Held, Next, Path, Planner, plan};
pub use retention::{Retention, is_promised, new_since};
pub use rotation::Rotation;
pub use signed::{Check, SignedHead, TrustedHead};
pub use time::{NotATime, Time};
pub use trust::{Clock, Mark, receive, trusted_key};
