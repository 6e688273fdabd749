//! Channels natively: where they lie (folders, buckets, web servers), keys, and the publisher.

mod access;
mod clock;
mod cloud;
mod credentials;
mod error;
mod fold;
mod folder;
mod follower;
mod holdings;
mod keys;
mod listing;
mod location;
mod notify;
mod place;
mod publisher;
mod rebuild;
mod snapshot;
mod state;
mod successor;
mod told;
mod upkeep;
mod uploads;
mod watch;
mod web;

pub use access::{ServedHead, Store, StoreOptions};
pub use clock::now;
pub use error::Error;
pub use follower::{FollowOptions, Follower, Standing, Update};
pub use keys::{SecretKey, verify};
pub use listing::Listing;
pub use notify::post_json;
pub use publisher::{Prepared, PublishOptions, Publisher};
pub use upkeep::{Collected, Newest};
pub use watch::{Candidate, Watch};
