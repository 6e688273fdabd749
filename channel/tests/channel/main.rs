//! The channel against definitions and accidents: heads, pages, trust, paths; publisher, follower, upkeep.

mod follow;
mod heads;
mod pages;
mod place;
mod plans;
mod publish;
mod support;
mod trust;
mod upkeep;
