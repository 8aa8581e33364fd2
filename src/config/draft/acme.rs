//! The keys of a site for certificates that an authority issues, as written in the config.

use std::path::PathBuf;

use larder_proxy::settings::{AcmeChallenge, LETS_ENCRYPT};

/// The values as written.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) contact: Vec<String>,
    pub(crate) directory: String,
    pub(crate) accept_terms: bool,
    pub(crate) challenge: Option<AcmeChallenge>,
    pub(crate) ca: Option<PathBuf>,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            contact: Vec::new(),
            directory: LETS_ENCRYPT.to_owned(),
            accept_terms: false,
            challenge: None,
            ca: None,
        }
    }
}
