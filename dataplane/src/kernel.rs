//! The seam between what we want and what carries it out: a trait with two implementations, the
//! real one over netlink and the [fake](crate::fake) one in memory.

use std::collections::BTreeSet;
use std::fmt;
use std::io;

use crate::frontend::Family;
use crate::program::Program;
use crate::rows::{AffinityRow, Chain, Row, RowKey};
use crate::transaction::{Stray, Transaction};

/// One of our tables as it was read back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableState {
    /// Which program it is, from the table's comment; `None` if the comment does not say.
    pub identity: Option<String>,
    /// What is missing, added or changed in the fixed program, in words; empty if it is whole.
    pub damage: Vec<String>,
    /// The chains for rows that exist.
    pub chains: BTreeSet<Chain>,
    /// All rows.
    pub rows: Vec<Row>,
    /// Elements that are not rows.
    pub strays: Vec<Stray>,
}

impl TableState {
    /// Whether it holds `program`, unharmed.
    pub(crate) fn is_whole(&self, program: &Program) -> bool {
        self.damage.is_empty() && self.identity.as_deref() == Some(program.identity().as_str())
    }
}

/// Both of our tables; `None` where there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelState {
    /// Table `ip sliceproxy`.
    pub v4: Option<TableState>,
    /// Table `ip6 sliceproxy`.
    pub v6: Option<TableState>,
}

impl KernelState {
    /// The table of that family.
    pub fn table(&self, family: Family) -> Option<&TableState> {
        match family {
            Family::V4 => self.v4.as_ref(),
            Family::V6 => self.v6.as_ref(),
        }
    }

    /// The table of that family, to be changed.
    pub(crate) fn table_mut(&mut self, family: Family) -> &mut Option<TableState> {
        match family {
            Family::V4 => &mut self.v4,
            Family::V6 => &mut self.v6,
        }
    }

    /// The rows of both tables.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.v4.iter().chain(&self.v6).flat_map(|table| &table.rows)
    }
}

/// What a commit cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Committed {
    /// Set elements added or deleted.
    pub elements: usize,
    /// Netlink messages sent.
    pub messages: usize,
    /// Bytes sent.
    pub bytes: usize,
}

/// The part of a transaction that the kernel refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Writing that row.
    Add(Row),
    /// Deleting that row.
    Delete(RowKey),
    /// Making or removing that chain.
    Chain(Family, String),
    /// Installing the program of that family: the named object of it.
    Program(Family, String),
    /// Writing or forgetting a remembered client.
    Affinity(AffinityRow),
    /// Deleting a foreign element.
    Stray(Stray),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add(row) => write!(f, "add {row}"),
            Self::Delete(key) => write!(f, "delete {} {key}", key.set()),
            Self::Chain(family, name) => write!(f, "chain {} {name}", family.nft_name()),
            Self::Program(family, what) => write!(f, "program {} {what}", family.nft_name()),
            Self::Affinity(row) => write!(f, "affinity of {} to {}", row.client, row.frontend),
            Self::Stray(stray) => write!(f, "foreign element in {}", stray.set),
        }
    }
}

/// A refused change and the kernel's reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What was refused.
    pub change: Change,
    /// The error number (errno).
    pub errno: i32,
}

impl Refusal {
    /// Whether the refusal only says that the kernel's state is not what we took it for
    /// (`ENOENT`, `EEXIST`, `EBUSY`): reading it back helps, setting the row aside does not.
    pub fn is_drift(&self) -> bool {
        [nix::libc::ENOENT, nix::libc::EEXIST, nix::libc::EBUSY].contains(&self.errno)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.change, io::Error::from_raw_os_error(self.errno))
    }
}

/// Why nothing of a transaction was applied, or why the state could not be read.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The kernel refused these parts and applied nothing.
    #[error("the kernel refused {} change(s), the first: {}", .0.len(), .0.first().map(ToString::to_string).unwrap_or_default())]
    Refused(Vec<Refusal>),
    /// No right to change nftables.
    #[error(
        "not allowed to change nftables in this network namespace: run as root or with CAP_NET_ADMIN"
    )]
    Permission,
    /// A table of our name belongs to a process that keeps others from changing it.
    #[error(
        "table {} {} is held by {holder}: it was made with `flags owner`, so that nobody else can \
         change or remove it, and it goes when that process ends; end it",
        .family.nft_name(),
        crate::program::TABLE
    )]
    Held {
        /// The table's family.
        family: Family,
        /// The process, as far as it is known.
        holder: String,
    },
    /// The kernel lacks something that the program needs.
    #[error("this kernel cannot run the program: {what} is missing; load or enable {module}")]
    Unsupported {
        /// The nftables expression or object.
        what: String,
        /// Kernel option and module that provide it.
        module: String,
    },
    /// Read-back did not come to a consistent end in several tries.
    #[error("the tables changed during each of {0} attempts to read them")]
    Torn(u32),
    /// The socket failed.
    #[error("netlink socket: {0}")]
    Socket(#[from] io::Error),
    /// The kernel's answer made no sense.
    #[error("unexpected netlink answer: {0}")]
    Protocol(String),
}

/// A kernel that holds the two tables.
pub trait Kernel: Send {
    /// Applies all of `transaction`, or nothing.
    ///
    /// # Errors
    /// See [`KernelError`]; after any error the kernel is as it was before, except that after
    /// [`KernelError::Socket`] it is unknown and has to be read back.
    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, KernelError>;

    /// Reads both tables: what there is, not what we wrote.
    ///
    /// # Errors
    /// See [`KernelError`].
    fn read(&mut self) -> Result<KernelState, KernelError>;

    /// From now on the tables should hold these programs: what [`Kernel::read`] calls damage.
    fn expect(&mut self, programs: &[Program]) {
        let _ = programs;
    }

    /// Reads the remembered clients of `family`.
    ///
    /// # Errors
    /// See [`KernelError`].
    fn read_affinity(&mut self, family: Family) -> Result<Vec<AffinityRow>, KernelError>;
}

/// A kernel that can be read while it commits.
pub trait ReadBeside: Kernel {
    /// A way to read the same two tables, from any thread.
    fn reader(&self) -> Box<dyn Reader>;
}

/// What was found by going over both tables once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pass {
    /// What was found. Where it is not exact, a row may be missing or be there twice, or be as it was
    /// before or after any commit meanwhile; but a row that was never there is not in it.
    pub state: KernelState,
    /// Whether it is of one moment: nobody committed meanwhile, and nothing was found twice.
    pub exact: bool,
}

/// Reads the tables of a [`Kernel`] that goes on committing. See [`crate::reading`] for how what it
/// finds becomes a whole.
pub trait Reader: Send {
    /// Goes over both tables once.
    ///
    /// # Errors
    /// See [`KernelError`].
    fn pass(&mut self) -> Result<Pass, KernelError>;

    /// The same as [`Kernel::expect`], for what [`Reader::pass`] calls damage.
    fn expect(&mut self, programs: &[Program]) {
        let _ = programs;
    }

    /// Reads the remembered clients of `family`.
    ///
    /// # Errors
    /// See [`KernelError`].
    fn clients(&mut self, family: Family) -> Result<Vec<AffinityRow>, KernelError>;
}
