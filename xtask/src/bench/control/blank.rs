//! The time of blanking a pool of a million tags, and the time of requests to another pool meanwhile. Both are printed
//! by the bench of the pools' crate, which is independent of HTTP.

use super::super::goal::Goal;
use crate::cargo;
use anyhow::{Context, Result, bail};

/// The maximum time of blanking, in microseconds.
const AT_ONCE: f64 = 1_000.0;
/// The maximum 99th percentile of requests to another pool meanwhile, in microseconds. An implementation that visited a
/// million tags to blank them would take milliseconds, about five hundred times in a second.
const NO_PAUSE: f64 = 50.0;

/// Runs the bench of `larder-tags`, and prints its output. Fails if it fails, or does not print the expected lines.
pub(super) fn goals() -> Result<Vec<Goal>> {
    let output = cargo()
        .args(["bench", "--quiet", "--package", "larder-tags", "--bench", "blank"])
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("`cargo bench -p larder-tags` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    println!("\na pool of a million tags\n{}", text.trim());
    let [blank, meanwhile] =
        ["blank them all, twice", "the same while blanked"].map(|what| figure(&text, what));
    Ok(vec![
        Goal::new("a million tags blanked, us".to_owned(), AT_ONCE, blank?),
        Goal::new("p99 of asking another pool meanwhile, us".to_owned(), NO_PAUSE, meanwhile?),
    ])
}

/// Returns the microseconds in the line that begins with `what`.
fn figure(text: &str, what: &str) -> Result<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(what));
    let number = line.and_then(|line| line.trim().strip_suffix("us")?.trim().parse().ok());
    number.with_context(|| format!("no figure of '{what}' in: {text}"))
}

#[cfg(test)]
mod tests {
    use super::figure;

    #[test]
    fn figures_are_found_by_name() {
        let text = "store a tag                 1.250 us\nblank them all, twice       0.700 us\n";
        assert_eq!(figure(text, "blank them all, twice").unwrap(), 0.7);
        assert!(figure(text, "match a tag").is_err());
    }
}
