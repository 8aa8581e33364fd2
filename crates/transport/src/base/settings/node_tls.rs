//! TLS between the nodes of a cluster.

use std::path::PathBuf;

use super::CertificateFiles;

/// The authentication of nodes on TLS connections between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeTls {
    /// With a key derived from the cluster's token.
    Token,
    /// With certificates.
    Files(NodeTlsFiles),
}

/// The certificates of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTlsFiles {
    /// Certificates of the authorities that sign node certificates, in PEM.
    pub ca: PathBuf,
    /// The certificate of this node.
    pub own: CertificateFiles,
    /// The name in the certificates of all nodes; `None`: the host in a node's URL for outgoing connections, and any
    /// name for incoming ones.
    pub name: Option<String>,
}
