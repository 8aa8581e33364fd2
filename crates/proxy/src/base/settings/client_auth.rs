//! Certificates that clients show to listeners.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::server::danger::ClientCertVerifier;

use super::Role;
use crate::base::file_version::FileVersion;

/// What the config says of clients' certificates on the listeners of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientAuthFiles {
    /// Certificates of the authorities that sign those of clients, in PEM.
    pub ca: PathBuf,
    /// Clients without a certificate are refused.
    pub is_required: bool,
    /// Where it was configured, as an error says it: `larder.toml:7`.
    pub place: String,
}

/// The same with the authorities that were read from the file.
#[derive(Clone, Debug)]
pub struct ClientAuth {
    /// Where they were read from.
    pub files: ClientAuthFiles,
    /// Verifies what clients show.
    pub verifier: Arc<dyn ClientCertVerifier>,
    /// How many there are.
    pub count: usize,
    /// The version of the file.
    pub version: Option<FileVersion>,
}

/// The certificates of clients, by the role of the listeners.
#[derive(Clone, Debug, Default)]
pub struct ClientAuths {
    /// On listeners for sites.
    pub reverse: Option<Arc<ClientAuth>>,
    /// On those of the forward proxy.
    pub forward: Option<Arc<ClientAuth>>,
}

impl ClientAuths {
    /// What holds on listeners of this role; `None`: clients are asked for no certificate.
    pub fn of(&self, role: Role) -> Option<&Arc<ClientAuth>> {
        match role {
            Role::Reverse => self.reverse.as_ref(),
            Role::Forward => self.forward.as_ref(),
        }
    }
}
