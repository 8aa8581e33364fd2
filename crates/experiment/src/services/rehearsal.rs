//! The services without a network: their answers to consecutive requests.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;

use larder_lab::workload::WorkloadRequest;
use tempfile::TempDir;

use super::routes::Services;

/// The services for one run of a simulation.
pub(crate) struct Rehearsal {
    services: Services,
    _folder: TempDir,
}

/// The properties of an answer that a cache needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AnswerTraits {
    pub(crate) status: u16,
    /// The length in bytes.
    pub(crate) length: u64,
    /// A number that identifies the content.
    pub(crate) content: u64,
}

impl Rehearsal {
    /// Returns services with `entities` users, paths and skills each. Fails if a database cannot be created.
    pub(crate) fn new(entities: u32) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let services = Services::create(folder.path(), entities).map_err(io::Error::other)?;
        Ok(Self { services, _folder: folder })
    }

    pub(crate) fn answer(&self, step: &WorkloadRequest) -> AnswerTraits {
        let reply = self.services.answer(step.method, &step.path, step.body.as_bytes());
        let (body, mut hasher) = (reply.body.to_string(), DefaultHasher::new());
        body.hash(&mut hasher);
        AnswerTraits { status: reply.status, length: body.len() as u64, content: hasher.finish() }
    }

    /// Answers a request. Returns the status, and the names of the data that the answer was built from, or that the write
    /// has changed.
    pub(crate) fn data_of(&self, step: &WorkloadRequest) -> (u16, BTreeSet<String>) {
        let reply = self.services.answer(step.method, &step.path, step.body.as_bytes());
        let names = reply.body["versions"].as_object().into_iter().flat_map(|versions| versions.keys());
        (reply.status, names.cloned().collect())
    }
}
