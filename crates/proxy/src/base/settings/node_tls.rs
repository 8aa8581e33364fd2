//! TLS between the nodes of a cluster.

use std::path::PathBuf;

use super::CertificateFiles;

/// How nodes prove to each other that they are nodes, on connections over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeTls {
    /// With a key that follows from the cluster's token.
    Token,
    /// With certificates.
    Files(NodeTlsFiles),
}

/// The certificates of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTlsFiles {
    /// Certificates of the authorities that sign those of nodes, in PEM.
    pub ca: PathBuf,
    /// The certificate of this node.
    pub own: CertificateFiles,
    /// The name in the certificates of all nodes; `None`: the host in a node's URL, and any in those of nodes that connect.
    pub name: Option<String>,
}
