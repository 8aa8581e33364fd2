//! The extent of the measurements.

use larder_words::named;
use serde::{Deserialize, Serialize};

named! {
    /// The extent of the measurements.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Size, name {
        /// A few requests, to check that everything works: the numbers have no meaning.
        Smoke = "smoke",
        /// Every figure, from few measurements.
        Quick = "quick",
        /// All measurements that the claims need.
        Full = "full",
    }
}
