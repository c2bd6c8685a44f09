//! Arguments, logging, signals.

use sliceproxy::cli::args::{self, Command};

fn main() {
    if let Command::Completions(completions) = args::parse().command {
        completions.write(&mut std::io::stdout());
    }
}
