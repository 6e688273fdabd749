//! All formats through the same cases: what they must carry, and what they must refuse.

mod cases;
mod golden;
mod hostile;
mod round_trip;
mod sizes;
