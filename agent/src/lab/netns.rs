//! One network namespace.

use std::fmt;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

use super::LabError;

/// Identifies a network namespace while it exists: the inode that `/proc/PID/ns/net` points at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetnsId(pub u64);

impl fmt::Display for NetnsId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "net:[{}]", self.0)
    }
}

/// A network namespace without a name, held by a file descriptor.
///
/// It is gone when this value, every socket opened in it and every process started in it are
/// gone; so also when the process is killed.
#[derive(Debug)]
pub struct Netns {
    fd: OwnedFd,
}

impl Netns {
    /// Makes a namespace; it holds nothing but a loopback interface, which is down.
    pub fn new() -> Result<Self, LabError> {
        // Only the new thread moves: the caller stays in its own namespace.
        let opened = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(LabError::system(
                "cannot make a network namespace (needs CAP_SYS_ADMIN, or a user namespace of \
                 one's own)",
            ))?;
            File::open("/proc/thread-self/ns/net")
                .map_err(LabError::system("/proc/thread-self/ns/net"))
        });
        let file = opened.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(Self { fd: file.into() })
    }

    /// Runs `work` in a thread inside the namespace and waits for it. Sockets that it opens and
    /// processes that it starts belong to the namespace for good.
    ///
    /// # Errors
    /// When the thread cannot be started, or not enter the namespace; `work` has not run then.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        let inside = || {
            setns(&self.fd, CloneFlags::CLONE_NEWNET)
                .map_err(LabError::system("cannot enter a network namespace"))?;
            Ok(work())
        };
        thread::scope(|scope| {
            let thread = thread::Builder::new()
                .name("in-namespace".into())
                .spawn_scoped(scope, inside)
                .map_err(LabError::system("cannot start a thread"))?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Starts a thread that stays inside the namespace.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<thread::JoinHandle<Result<T, LabError>>, LabError> {
        let fd = self.fd.try_clone().map_err(LabError::system("cannot copy a descriptor"))?;
        thread::Builder::new()
            .name(name.into())
            .spawn(move || {
                setns(&fd, CloneFlags::CLONE_NEWNET)
                    .map_err(LabError::system("cannot enter a network namespace"))?;
                // Were it kept, a thread that outlives the lab would keep the namespace twice.
                drop(fd);
                Ok(work())
            })
            .map_err(LabError::system("cannot start a thread"))
    }

    /// Which namespace this is.
    pub fn id(&self) -> Result<NetnsId, LabError> {
        let path = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        let metadata = fs::metadata(&path).map_err(LabError::system(path))?;
        Ok(NetnsId(metadata.ino()))
    }

    /// Writes a sysctl below `/proc/sys/net`, such as `ipv4/ip_forward`.
    pub fn set_sysctl(&self, name: &str, value: &str) -> Result<(), LabError> {
        self.set_sysctls(&[(name, value)])
    }

    /// Writes several sysctls below `/proc/sys/net`, in order.
    pub fn set_sysctls(&self, settings: &[(&str, &str)]) -> Result<(), LabError> {
        self.run(|| {
            settings.iter().try_for_each(|(name, value)| {
                let path = format!("/proc/sys/net/{name}");
                fs::write(&path, value)
                    .map_err(LabError::system(format!("cannot write {value} to {path}")))
            })
        })?
    }

    /// Reads a sysctl below `/proc/sys/net`, without the newline.
    pub fn sysctl(&self, name: &str) -> Result<String, LabError> {
        self.run(|| {
            let path = format!("/proc/sys/net/{name}");
            let text = fs::read_to_string(&path).map_err(LabError::system(path))?;
            Ok(text.trim_end().to_owned())
        })?
    }

    /// The descriptor's number, for netlink requests that move a link into the namespace.
    pub(super) fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
