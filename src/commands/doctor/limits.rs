//! Limits of the process: open files, and the size of files.

use larder_proxy::Settings;
use rustix::process::{Resource, getrlimit};

use super::finding::Finding;
use crate::cli::open_files;
use crate::cli::units::show_size;

const FILES: &str = "open files";
const FILE_SIZE: &str = "file size";

/// Compares the limit of open files with the connections of the config.
pub(super) fn open_files(settings: &Settings) -> Finding {
    const ADVICE: &str =
        "raise LimitNOFILE= in the unit, or ulimit -n, since each connection is an open file";
    open_files::raise();
    let mut planned = settings.clone();
    if let Err(problem) = open_files::plan(&mut planned) {
        return Finding::problem(FILES, problem, ADVICE);
    }
    let limit = getrlimit(Resource::Nofile).current;
    let limit = limit.map_or_else(|| "any number".to_owned(), |limit| limit.to_string());
    let fewer = open_files::lowered(&settings.limits, &planned.limits);
    let fewer: Vec<_> = fewer.map(|(wanted, planned, of)| format!("{planned} {of}, not {wanted}")).collect();
    if !fewer.is_empty() {
        let found = format!("{limit} may be open at once, enough for {}", fewer.join(", and "));
        return Finding::warning(FILES, found, format!("{ADVICE}; or lower limits.connections"));
    }
    let connections = planned.limits.connections;
    Finding::ok(
        FILES,
        format!("{limit} may be open at once, enough for {connections} connections of clients"),
    )
}

/// Examines the limit of the size of files, which memory files and the disk tier reach sooner or later.
pub(super) fn file_size() -> Finding {
    match getrlimit(Resource::Fsize).current {
        None => Finding::ok(FILE_SIZE, "not limited"),
        Some(most) => Finding::problem(
            FILE_SIZE,
            format!("limited to {}", show_size(most)),
            "set LimitFSIZE=infinity in the unit, or ulimit -f unlimited: beyond it, large responses are not stored",
        ),
    }
}
