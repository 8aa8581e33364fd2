//! THE TABLE of protocols.

pub(crate) mod cargo;
pub(crate) mod debian;
pub(crate) mod git;
pub(crate) mod go;
pub(crate) mod maven;
pub(crate) mod npm;
pub(crate) mod oci;
pub(crate) mod pypi;
pub(crate) mod rpm;
pub(crate) mod rubygems;

use crate::resource::Resource;

macro_rules! protocols {
    ($($name:ident $module:ident $about:literal;)+) => {
        /// A protocol of package registries. Paths that several protocols have belong to the first one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Protocol {
            $(#[doc = $about] $name,)+
        }

        impl Protocol {
            /// All protocols.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns its name in the config.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($module),)+ }
            }

            pub(crate) fn resource(self, path: &str) -> Option<Resource<'_>> {
                match self { $(Self::$name => $module::resource(path),)+ }
            }
        }
    };
}

// npm is the last: its documents are at paths of any form.
protocols! {
    Oci oci "Images of containers (OCI distribution-spec).";
    Go go "Go modules and their checksum database (go.dev/ref/mod).";
    Git git "Objects of git over HTTP (git-scm.com/docs/gitprotocol-http).";
    Debian debian "Packages of Debian and its relatives (wiki.debian.org/DebianRepository/Format).";
    Rpm rpm "Packages of Fedora, RHEL, openSUSE (createrepo).";
    Cargo cargo "Crates with a sparse index (doc.rust-lang.org/cargo/reference/registry-index.html).";
    Pypi pypi "Python distributions with a simple index (PEP 503, 691, 700).";
    Rubygems rubygems "Gems with a compact index (guides.rubygems.org).";
    Maven maven "Artifacts of Java (maven.apache.org/repository/layout.html).";
    Npm npm "Packages of JavaScript (github.com/npm/registry).";
}

/// A set of protocols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protocols(u16);

impl Protocols {
    /// All protocols.
    pub const ALL: Self = Self((1 << Protocol::ALL.len()) - 1);

    /// Iterates over its protocols, in the order of the table.
    pub fn each(self) -> impl Iterator<Item = Protocol> {
        Protocol::ALL.iter().copied().filter(move |protocol| self.has(*protocol))
    }

    /// Whether it has this protocol.
    pub fn has(self, protocol: Protocol) -> bool {
        self.0 & 1 << protocol as u16 != 0
    }

    /// Whether it is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Protocol> for Protocols {
    fn from_iter<I: IntoIterator<Item = Protocol>>(protocols: I) -> Self {
        Self(protocols.into_iter().fold(0, |set, protocol| set | 1 << protocol as u16))
    }
}

/// Returns the last segment of a path, and the path before its slash.
pub(crate) fn last_segment(path: &str) -> Option<(&str, &str)> {
    path.rsplit_once('/')
}
