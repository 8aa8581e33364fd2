//! `larder check`: whether `larder serve` would accept the same words, and what it would run.

use crate::args::Check;
use crate::config::{self, docs};
use crate::{Failure, say};

/// Prints `ok` and a summary, or refuses with all that is wrong.
pub(crate) fn run(check: &Check) -> Result<(), Failure> {
    if check.example || check.reference {
        let page = if check.example { docs::example() } else { docs::reference() };
        say(page.trim_end());
        return Ok(());
    }
    let (path, flags) = (check.run.config.as_deref(), &check.run.flags);
    let settings = config::load(path, flags).map_err(|error| Failure::Refused(error.to_string()))?;
    say("ok");
    for (what, value) in config::summary(&settings) {
        say(&format!("{what:<8} {value}"));
    }
    Ok(())
}
