//! Where channels lie, natively: folders, buckets, web servers; keys; what this machine remembers.

mod access;
mod clock;
mod cloud;
mod credentials;
mod error;
mod folder;
mod keys;
mod location;
mod place;
mod state;
mod uploads;
mod web;

pub use access::{ServedHead, Store, StoreOptions};
pub use clock::now;
pub use error::Error;
pub use keys::{SecretKey, verify};
