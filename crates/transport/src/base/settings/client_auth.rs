//! Client certificates that listeners request.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::server::danger::ClientCertVerifier;

use super::Role;
use crate::base::file_version::FileVersion;

/// The settings of client certificates for the listeners of one table of the config.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientAuthFiles {
    /// Certificates of the authorities that sign client certificates, in PEM.
    pub ca: PathBuf,
    /// Whether clients without a certificate are refused.
    pub is_required: bool,
    /// The place in the config, for error messages: `larder.toml:7`.
    pub place: String,
}

/// The settings of client certificates, with the authorities read from the file.
#[derive(Clone, Debug)]
pub struct ClientAuth {
    /// The settings with the file.
    pub files: ClientAuthFiles,
    /// Verifies client certificates.
    pub verifier: Arc<dyn ClientCertVerifier>,
    /// The number of authorities.
    pub count: usize,
    /// The version of the file when it was read.
    pub version: Option<FileVersion>,
}

/// The settings of client certificates, by the role of the listeners.
#[derive(Clone, Debug, Default)]
pub struct ClientAuths {
    /// For listeners for sites.
    pub reverse: Option<Arc<ClientAuth>>,
    /// For listeners of the forward proxy.
    pub forward: Option<Arc<ClientAuth>>,
}

impl ClientAuths {
    /// Returns the settings for listeners of this role; `None`: they request no certificate.
    pub fn of(&self, role: Role) -> Option<&Arc<ClientAuth>> {
        match role {
            Role::Reverse => self.reverse.as_ref(),
            Role::Forward => self.forward.as_ref(),
        }
    }
}
