//! What a process has from the one before it, where it is made.

use std::fs::File;

/// What a process has from the one before it; by default, nothing.
#[derive(Debug, Default)]
pub struct Inheritance {
    /// The id of the node of the cluster, so that the others see one node.
    pub node: Option<String>,
    /// The lock of the default statistics database, which both processes hold and write to.
    pub statistics: Option<File>,
}
