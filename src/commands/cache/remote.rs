//! The stored objects of a running larder, through its admin listener.

use http::{Method, StatusCode};
use larder_proxy::inventory::{Object, Progress};
use larder_store::disks::Name;
use serde_json::from_slice;

use crate::cli::admin::{AdminClient, Problem};

/// The answer of the listener if there is no such object.
const ABSENT: &str = "nothing is stored";

/// As [`CacheSource::list`](super::source::CacheSource::list).
pub(super) fn list(
    remote: &AdminClient,
    url: Option<&str>,
    see: &mut dyn FnMut(Object) -> bool,
) -> Result<(), String> {
    let query: Vec<_> = url.map(|url| ("url", url.to_owned())).into_iter().collect();
    let listed = remote.lines(Method::GET, "cache", &query, &mut |line| {
        from_slice(line)
            .map(&mut *see)
            .map_err(|error| format!("unexpected response from the admin listener: {error}"))
    });
    listed.map_err(|problem| problem.to_string())
}

/// As [`CacheSource::get`](super::source::CacheSource::get).
pub(super) fn get(
    remote: &AdminClient,
    name: Name,
    take: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<bool, String> {
    match remote.pieces(&format!("cache/{name}"), &[], take) {
        Ok(()) => Ok(true),
        Err(Problem::Refused(StatusCode::NOT_FOUND, why)) if why.contains(ABSENT) => Ok(false),
        Err(problem) => Err(problem.to_string()),
    }
}

/// As [`CacheSource::verify`](super::source::CacheSource::verify).
pub(super) fn verify(
    remote: &AdminClient,
    rate: u64,
    tell: &mut dyn FnMut(&Progress),
) -> Result<Progress, String> {
    let mut last = Progress::default();
    let verified = remote.lines(Method::POST, "cache/verify", &[("rate", rate.to_string())], &mut |line| {
        last = from_slice(line).map_err(|error| format!("malformed progress: {error}"))?;
        tell(&last);
        Ok(true)
    });
    verified.map_err(|problem| problem.to_string())?;
    last.done.then_some(last).ok_or_else(|| "it ended before it was done".to_owned())
}
