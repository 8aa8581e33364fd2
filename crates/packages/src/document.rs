//! Index documents: what they say about files.

use std::borrow::Cow;

use crate::digest::{Algorithm, Digest};
use crate::protocols::{cargo, debian, go, maven, npm, pypi, rpm, rubygems};

/// A kind of index documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Document {
    /// All versions of an npm package.
    NpmPackage,
    /// All files of a Python project, in HTML or JSON.
    PypiProject,
    /// The settings of a cargo registry: where crates are downloaded.
    CargoConfig,
    /// All versions of a crate.
    CargoCrate,
    /// `Release` or `InRelease`: the indexes of a Debian suite.
    DebianRelease,
    /// `Packages`: the packages of a part of a suite.
    DebianPackages,
    /// `repomd.xml`: the indexes of an RPM repository.
    RpmRoot,
    /// `primary.xml`: the packages of an RPM repository.
    RpmPackages,
    /// The record of a module version in Go's checksum database.
    GoSum,
    /// When a module version was made.
    GoInfo,
    /// All versions of a module.
    GoList,
    /// The newest version of a module.
    GoLatest,
    /// The digest of the file beside it.
    MavenDigest(Algorithm),
    /// All versions of an artifact.
    MavenVersions,
    /// The SHA-1 of that document beside it.
    MavenVersionsDigest,
    /// All versions of a gem.
    Gem,
}

/// What an index document says about one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item<'d> {
    /// The file.
    pub place: Place<'d>,
    /// Its digest.
    pub digest: Option<Digest>,
    /// When its version was published.
    pub published: Option<u32>,
}

/// The place of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place<'d> {
    /// A reference to its URL, relative to that of the document (RFC 3986 section 4.1).
    Url(Cow<'d, str>),
    /// The name of its content, which is the same at all mirrors, and the path at the origin of the document, if it is known.
    Coordinate(String, Option<String>),
    /// Not a file: the template of the URLs that later documents of the same registry stand for.
    Template(Cow<'d, str>),
}

impl<'d> Item<'d> {
    pub(crate) fn url(reference: impl Into<Cow<'d, str>>, digest: Option<Digest>) -> Self {
        Self { place: Place::Url(reference.into()), digest, published: None }
    }

    pub(crate) fn published(self, published: Option<u32>) -> Self {
        Self { published, ..self }
    }
}

impl Document {
    /// The longest document that is read, in bytes, decoded.
    pub const LONGEST: usize = 64 << 20;

    /// Whether the other indexes of the registry have to be consistent with it.
    pub fn is_root(self) -> bool {
        matches!(self, Self::DebianRelease | Self::RpmRoot)
    }

    /// Whether a response of this media type can be the document.
    pub fn is_of_type(self, media_type: &str) -> bool {
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        let is_json = || essence.ends_with("/json") || essence.ends_with("+json");
        match self {
            Self::NpmPackage => is_json(),
            Self::PypiProject => is_json() || essence.ends_with("/html") || essence.ends_with("+html"),
            _ => true,
        }
    }

    /// Returns what the document at `path` says about files. `template` is the one that an earlier document of the same
    /// registry named. Of a malformed document, it returns what could be read.
    pub fn read<'d>(self, path: &str, content: &'d [u8], template: Option<&str>) -> Vec<Item<'d>> {
        match self {
            Self::NpmPackage => npm::read(content),
            Self::PypiProject => pypi::read(content),
            Self::CargoConfig => cargo::read_config(content),
            Self::CargoCrate => cargo::read(content, template),
            Self::DebianRelease => debian::read_release(text(content)),
            Self::DebianPackages => debian::read_packages(path, text(content)),
            Self::RpmRoot => rpm::read_root(text(content)),
            Self::RpmPackages => rpm::read_packages(text(content)),
            Self::GoSum => go::read_sum(path, text(content)),
            Self::GoInfo => go::read_info(path, content),
            Self::MavenDigest(algorithm) => maven::read(path, algorithm, text(content)),
            Self::Gem => rubygems::read(path, text(content)),
            Self::GoList | Self::GoLatest | Self::MavenVersions | Self::MavenVersionsDigest => Vec::new(),
        }
    }

    /// Returns the path of the registry that the document at `path` belongs to, for templates.
    pub fn registry(self, path: &str) -> &str {
        match self {
            Self::CargoConfig | Self::CargoCrate => cargo::registry(path),
            _ => path,
        }
    }
}

/// Returns the part of `content` that is text.
pub(crate) fn text(content: &[u8]) -> &str {
    match std::str::from_utf8(content) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&content[..error.valid_up_to()]).unwrap_or_default(),
    }
}
