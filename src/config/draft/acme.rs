//! The keys of a site for certificates that an authority issues, as written in the config.

use std::path::PathBuf;

use larder_proxy::settings::{AcmeChallenge, LETS_ENCRYPT};
use larder_semantics::with_defaults;

with_defaults! {
    /// The values as written.
    #[derive(Clone, Debug)]
    pub(crate) struct Draft {
        contact: Vec<String> = Vec::new(),
        directory: String = LETS_ENCRYPT.to_owned(),
        accept_terms: bool = false,
        challenge: Option<AcmeChallenge> = None,
        ca: Option<PathBuf> = None,
    }
}
