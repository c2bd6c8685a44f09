//! A short, stable name for a value. Not for security: whoever can choose colliding values can only
//! rename a chain of their own.

use std::hash::{Hash, Hasher};

/// FNV-1a, 64 bits, over what `Hash` feeds it. The standard hasher is seeded per process, and a
/// name must be the same after a restart.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// The digest of `value`, the same in every process of the same build.
pub(crate) fn of(value: &impl Hash) -> u64 {
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    value.hash(&mut hasher);
    hasher.finish()
}
