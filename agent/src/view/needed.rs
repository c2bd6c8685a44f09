//! What an answer takes of the kernel, and how it is read.

use std::net::IpAddr;

use sliceproxy_dataplane::frontend::Family;
use sliceproxy_dataplane::kernel::{Kernel, KernelError, Reader};
use sliceproxy_dataplane::picture::Picture;
use sliceproxy_dataplane::reading::Reading;
use sliceproxy_dataplane::rows::{AffinityRow, RowKey};

/// A picture of the kernel, and what it remembers of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needed {
    /// The client, if one matters.
    pub client: Option<IpAddr>,
}

impl Needed {
    /// Reads it beside commits; nothing if they come too thick for that.
    ///
    /// # Errors
    /// If the kernel cannot be read.
    pub fn read_beside(
        self,
        reading: &Reading,
        reader: &mut dyn Reader,
    ) -> Result<Option<Picture>, KernelError> {
        let Some(picture) = reading.picture(reader)? else { return Ok(None) };
        self.with_clients(picture, |family| reader.clients(family)).map(Some)
    }

    /// Reads it from a kernel that does nothing else meanwhile.
    ///
    /// # Errors
    /// If the kernel cannot be read.
    pub fn read(self, kernel: &mut impl Kernel) -> Result<Picture, KernelError> {
        let picture = kernel.read()?.into();
        self.with_clients(picture, |family| kernel.read_affinity(family))
    }

    /// Clients are remembered for sticky frontends only, and looked up for a named client only.
    fn with_clients(
        self,
        picture: Picture,
        read: impl FnOnce(Family) -> Result<Vec<AffinityRow>, KernelError>,
    ) -> Result<Picture, KernelError> {
        let Some(client) = self.client else { return Ok(picture) };
        let family = Family::of(client);
        let is_sticky = |key| matches!(key, RowKey::StickyFrontend(f) if f.family() == family);
        if !picture.rows().any(|row| is_sticky(row.key)) {
            return Ok(picture);
        }
        let own = read(family)?.into_iter().filter(|row| row.client == client);
        Ok(picture.with_clients(own))
    }
}
