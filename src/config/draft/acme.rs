//! The keys of a site for certificates that an authority issues, as written in the config.

use std::path::PathBuf;

use larder_proxy::settings::{AcmeChallenge, LETS_ENCRYPT};
use larder_words::with_defaults;

with_defaults! {
    /// The values as written.
    #[derive(Clone, Debug)]
    pub(crate) struct Draft {
        pub(crate) contact: Vec<String> = Vec::new(),
        pub(crate) directory: String = LETS_ENCRYPT.to_owned(),
        pub(crate) accept_terms: bool = false,
        pub(crate) challenge: Option<AcmeChallenge> = None,
        pub(crate) ca: Option<PathBuf> = None,
    }
}
