//! The right to make network namespaces: ours already, or got by entering a user namespace.

use std::fs;
use std::io;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid};

use super::LabError;

/// Where the right to make network namespaces comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    /// The process had it: it runs as root.
    Root,
    /// The process is in a user namespace of its own, where it is root.
    UserNamespace,
}

/// `CAP_NET_ADMIN` and `CAP_SYS_ADMIN` as bits of `CapEff` (linux/capability.h).
const NEEDED_CAPABILITIES: u64 = 1 << 12 | 1 << 21;

/// Settings that forbid user namespaces on some distributions, the value that does, and a remedy.
const OBSTACLES: [(&str, &str, &str); 3] = [
    ("/proc/sys/user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=1000"),
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
];

/// Whether this process may make network namespaces and configure them.
pub fn may_make_namespaces() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| has_capabilities(&status))
}

fn has_capabilities(status: &str) -> bool {
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .is_some_and(|bits| bits & NEEDED_CAPABILITIES == NEEDED_CAPABILITIES)
}

/// Makes sure that this process may make network namespaces, through a user namespace of its own
/// if it has to. Call it before any thread is started.
///
/// # Errors
/// [`LabError::Privilege`] with what is missing and how to get it.
pub fn obtain_privilege() -> Result<Privilege, LabError> {
    if may_make_namespaces() {
        return Ok(Privilege::Root);
    }
    enter_user_namespace()?;
    Ok(Privilege::UserNamespace)
}

/// Moves this process into a user namespace of its own, where it is root. There is no way back.
/// Must be called before any thread is started.
///
/// # Errors
/// [`LabError::Privilege`] with what is missing and how to get it.
pub fn enter_user_namespace() -> Result<(), LabError> {
    let (uid, gid) = (Uid::effective(), Gid::effective());
    unshare(CloneFlags::CLONE_NEWUSER).map_err(refused)?;
    // Without this, an unprivileged process may not write a group map.
    write_map("setgroups", "deny")?;
    write_map("uid_map", &format!("0 {uid} 1"))?;
    write_map("gid_map", &format!("0 {gid} 1"))?;
    if may_make_namespaces() { Ok(()) } else { Err(refused(Errno::EPERM)) }
}

fn write_map(file: &str, text: &str) -> Result<(), LabError> {
    let path = format!("/proc/self/{file}");
    fs::write(&path, text).map_err(|error| {
        let errno = error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
        refused(errno)
    })
}

fn refused(errno: Errno) -> LabError {
    if errno == Errno::EINVAL {
        return LabError::Privilege(
            "a user namespace must be entered before the process starts threads".into(),
        );
    }
    let system = io::Error::from(errno);
    let hint = OBSTACLES
        .iter()
        .find(|(path, forbidding, _)| {
            fs::read_to_string(path).is_ok_and(|value| value.trim() == *forbidding)
        })
        .map_or_else(
            || "a container's seccomp profile, or the kernel's configuration, forbids it".into(),
            |(path, value, remedy)| {
                format!("{path} is {value} here; `{remedy}` (as root) allows it")
            },
        );
    LabError::Privilege(format!(
        "making network namespaces needs root, or user namespaces for everyone, and the kernel \
         refused one ({system}): {hint}. Or run this command as root."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_from_the_process_status() {
        for (status, expected) in [
            ("Name:\tx\nCapEff:\t000001ffffffffff\n", true),
            ("CapEff:\t0000000000201000\n", true),
            ("CapEff:\t0000000000001000\n", false),
            ("CapEff:\t0000000000000000\n", false),
            ("CapEff:\tnonsense\n", false),
            ("", false),
        ] {
            assert_eq!(has_capabilities(status), expected, "{status:?}");
        }
    }
}
