//! The server as its clients see it.

mod caching;
mod events;
mod following;
mod limits;
mod ranges;
mod support;
