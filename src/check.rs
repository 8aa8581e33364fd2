//! `larder check`: whether `larder serve` would accept the same arguments, and what it would run.

use crate::args::{Check, Reference};
use crate::config::{self, docs};
use crate::{Failure, say};

/// Prints `ok` and a summary, or refuses with all that is wrong.
pub(crate) fn run(check: &Check) -> Result<(), Failure> {
    if check.example {
        say(docs::example().trim_end());
        return Ok(());
    }
    if let Some(reference) = check.reference {
        let page = match reference {
            Reference::Config => docs::reference(),
            Reference::Metrics => larder_proxy::metrics_reference(),
        };
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
