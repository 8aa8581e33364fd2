//! What a URL means to the protocols of package registries.

use std::borrow::Cow;

use crate::digest::Digest;
use crate::document::Document;
use crate::protocols::{Protocol, Protocols};

/// A resource of a registry, recognised by its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource<'p> {
    /// The protocol that it belongs to.
    pub protocol: Protocol,
    /// What it is.
    pub kind: Kind,
    /// The digest that its path names.
    pub digest: Option<Digest>,
    /// The name of its content that is the same at all mirrors, if its index names that instead of a URL.
    pub coordinate: Option<String>,
    /// The version that it belongs to.
    pub version: Option<Version<'p>>,
}

/// A kind of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Content whose digest is its name.
    Content,
    /// A file that an index may name with its digest.
    File,
    /// A file that the protocol never changes.
    FixedFile,
    /// An index document.
    Index(Document),
    /// An index document that the protocol never changes.
    FixedIndex(Document),
    /// A name for changing content of OCI.
    Tag,
}

/// A version of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version<'p> {
    /// The name of the package.
    pub name: Cow<'p, str>,
    /// The number of the version.
    pub number: Cow<'p, str>,
}

/// How long a response is fresh, in place of what its origin says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// As long as it is stored: it does not change.
    Forever,
    /// Each use is validated: others have to be consistent with it.
    Validated,
    /// As the origin says.
    AsSent,
}

impl<'p> Resource<'p> {
    /// Returns what `path`, without a query, is to the first of these protocols that knows it.
    pub fn of(protocols: Protocols, path: &'p str) -> Option<Self> {
        protocols.each().find_map(|protocol| protocol.resource(path))
    }

    pub(crate) fn new(protocol: Protocol, kind: Kind) -> Self {
        Self { protocol, kind, digest: None, coordinate: None, version: None }
    }

    pub(crate) fn with_digest(self, digest: Option<Digest>) -> Self {
        Self { digest, ..self }
    }

    pub(crate) fn of_version(self, name: impl Into<Cow<'p, str>>, number: impl Into<Cow<'p, str>>) -> Self {
        Self { version: Some(Version { name: name.into(), number: number.into() }), ..self }
    }

    /// Returns how long the response is fresh; `is_known`: its digest is known, so that no other content is stored.
    pub fn keep(&self, is_known: bool) -> Keep {
        match self.kind {
            Kind::Content | Kind::FixedFile | Kind::FixedIndex(_) => Keep::Forever,
            Kind::Index(document) if document.is_root() => Keep::Validated,
            Kind::File | Kind::Index(_) if is_known => Keep::Forever,
            Kind::File | Kind::Index(_) | Kind::Tag => Keep::AsSent,
        }
    }

    /// Whether a client that names this resource has named its content, too, so that the response is no secret to it.
    pub fn names_content(&self) -> bool {
        self.digest.is_some()
    }

    /// Returns the index document, if it is one.
    pub fn document(&self) -> Option<Document> {
        match self.kind {
            Kind::Index(document) | Kind::FixedIndex(document) => Some(document),
            _ => None,
        }
    }

    /// Returns the path of the document with the digest of this file, which is at `path`, if its protocol has one beside each.
    pub fn digest_beside(&self, path: &str) -> Option<String> {
        let has_one = self.protocol == Protocol::Maven && self.is_file() && !path.ends_with(".asc");
        has_one.then(|| format!("{path}.sha1"))
    }

    /// Whether it is a file of a version, which may be too young.
    pub fn is_file(&self) -> bool {
        matches!(self.kind, Kind::File | Kind::FixedFile)
    }
}
