//! The sources of `larder cache`: directories that no larder uses, or the answers of a running larder. Both use the
//! words of [`inventory`].

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use larder_proxy::inventory::{self, Object, Progress};
use larder_store::disks::{Event, EventHandler, Name, OpenError};
use larder_store::{Disks, Tier};

use super::args;
use super::remote;
use crate::cli::Failure;
use crate::cli::admin::ADMIN;
use crate::cli::admin::AdminClient;
use crate::cli::progress::Bar;

/// Bytes of content that are read at once.
const PIECE: usize = 256 << 10;

/// A source of stored objects.
pub(super) enum CacheSource {
    /// Directories, with the number of places in their segments that hold no record.
    AtRest(Arc<Disks>, u64),
    Serving(AdminClient),
}

impl CacheSource {
    /// Opens the source that the user named.
    pub(super) fn open(place: &args::SourceArgs) -> Result<Self, Failure> {
        if place.disk.is_empty() {
            return place.listener.client().map(Self::Serving);
        }
        let reading = Bar::wait("reading the index".to_owned());
        let damaged = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&damaged);
        let tell: EventHandler = Arc::new(move |path: &Path, event| warn(path, &event, &count));
        let disks = Disks::at_rest(&place.disk, &tell);
        reading.finish();
        disks.map(|disks| Self::AtRest(disks.into(), damaged.load(Ordering::Relaxed))).map_err(|error| match error {
            OpenError::InUse { .. } => Failure::Failed(format!(
                "{error}; to query that process, write --admin {ADMIN}, or the address of its admin listener, instead of --disk"
            )),
            OpenError::Io { error: ref cause, .. } if is_wrong_path(cause) => Failure::Refused(error.to_string()),
            error => Failure::Failed(error.to_string()),
        })
    }

    /// Passes all stored objects, or those for `url`, to `see` until it returns false. The error is the reason why not
    /// all of them could be shown.
    pub(super) fn list(&self, url: Option<&str>, see: &mut dyn FnMut(Object) -> bool) -> Result<(), String> {
        match self {
            Self::AtRest(disks, _) => {
                let keys = url.map(inventory::keys).transpose()?;
                inventory::list(&[Arc::clone(disks) as Arc<dyn Tier>], None, keys.as_ref(), see);
                Ok(())
            }
            Self::Serving(remote) => remote::list(remote, url, see),
        }
    }

    /// Passes the head and content of the object called `name` to `take`, in pieces, until `take` returns false.
    /// Returns false if there is no such object. The error is the reason why not all of it could be read.
    pub(super) fn get(&self, name: Name, take: &mut dyn FnMut(&[u8]) -> bool) -> Result<bool, String> {
        let disks = match self {
            Self::AtRest(disks, _) => disks,
            Self::Serving(remote) => return remote::get(remote, name, take),
        };
        let Some(held) = disks.named(name) else { return Ok(false) };
        let (len, mut goes_on) = (held.content.len(), take(&inventory::head(&held)));
        for at in (0..len).step_by(PIECE) {
            if !goes_on {
                break;
            }
            let piece = held.content.read(at..len.min(at + PIECE as u64));
            goes_on = take(&piece.map_err(|error| error.to_string())?);
        }
        Ok(true)
    }

    /// Returns the number of places in segments that should hold records, but hold none that can be read. A running
    /// larder does not count them again.
    pub(super) fn damaged_places(&self) -> u64 {
        match self {
            Self::AtRest(_, damaged) => *damaged,
            Self::Serving(_) => 0,
        }
    }

    /// Reads all records, at most `rate` bytes per second, and reports the progress to `tell`. The error is the reason
    /// why it was not completed.
    pub(super) fn verify(&self, rate: u64, tell: &mut dyn FnMut(&Progress)) -> Result<Progress, String> {
        let disks = match self {
            Self::AtRest(disks, _) => disks,
            Self::Serving(remote) => return remote::verify(remote, rate, tell),
        };
        let progress = inventory::verify(disks, rate, &mut |progress| {
            tell(progress);
            true
        });
        if progress.corrupt > 0 || self.damaged_places() > 0 {
            // The next start then does not find the removed records again.
            disks.snapshot().map_err(|error| format!("cannot record the removals: {error}"))?;
        }
        Ok(progress)
    }
}

fn is_wrong_path(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Prints events about damage in a directory; other events of a start are not printed.
fn warn(path: &Path, event: &Event, damaged_places: &AtomicU64) {
    let damaged = match event {
        Event::Scanned { damaged, .. } => *damaged,
        _ => 0,
    };
    damaged_places.fetch_add(damaged, Ordering::Relaxed);
    if damaged > 0 || matches!(event, Event::Damaged { .. } | Event::Foreign { .. }) {
        eprintln!("larder: {}: {event}", path.display());
    }
}
