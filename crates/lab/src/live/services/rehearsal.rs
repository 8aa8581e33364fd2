//! The services without a network: their answers to consecutive requests.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;

use tempfile::TempDir;

use super::routes::Services;
use crate::workload::WorkloadRequest;

/// Services for one run of a simulation.
pub(crate) struct Rehearsal {
    services: Services,
    _folder: TempDir,
}

/// What a cache has to know of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) status: u16,
    /// In bytes.
    pub(crate) length: u64,
    /// Tells contents apart.
    pub(crate) content: u64,
}

impl Rehearsal {
    /// Services with `entities` users, paths and skills each.
    ///
    /// # Errors
    /// When a database cannot be made.
    pub(crate) fn new(entities: u32) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let services = Services::create(folder.path(), entities).map_err(io::Error::other)?;
        Ok(Self { services, _folder: folder })
    }

    /// The answer to a request.
    pub(crate) fn answer(&self, step: &WorkloadRequest) -> Said {
        let reply = self.services.answer(step.method, &step.path, step.body.as_bytes());
        let (body, mut hasher) = (reply.body.to_string(), DefaultHasher::new());
        body.hash(&mut hasher);
        Said { status: reply.status, length: body.len() as u64, content: hasher.finish() }
    }
}
