//! The channel's core against definitions: heads, pages, trust, paths.

mod heads;
mod pages;
mod place;
mod plans;
mod publish;
mod support;
mod trust;
mod upkeep;
