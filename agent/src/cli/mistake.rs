//! How the process says that it could not do what it was told, in few enough words.

use clap::Error;

use super::exit;
use crate::clip::clip;
use crate::logging;

/// Says on standard error what is wrong, after what was logged.
pub(super) fn print(message: &str) {
    logging::say(&format!("error: {}", clip(message)));
}

/// Ends the process as clap does, which quotes arguments in full.
pub(super) fn end(error: &Error) -> ! {
    let text = error.render().to_string();
    let clipped = clip(&text);
    if !error.use_stderr() || clipped == text.trim_end() {
        error.exit();
    }
    eprintln!("{clipped}");
    std::process::exit(exit::USAGE.into())
}
