//! What the agent answers: the local socket for `dump`, `explain` and `diff`.

pub mod admin;
