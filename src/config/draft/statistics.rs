//! The `[stats]` table as it was written.

use std::time::Duration;

use larder_proxy::settings::{ClientDetail, QueryStrings, Statistics};

/// The database of the statistics, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DatabasePlace {
    /// In the state directory.
    Default,
    /// There is none.
    Off,
    /// In the database at this URL.
    At(String),
}

/// The `[stats]` table, as written.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) place: DatabasePlace,
    pub(crate) keep: Duration,
    pub(crate) client: ClientDetail,
    pub(crate) query: QueryStrings,
    pub(crate) rate: u32,
    pub(crate) queue: usize,
    pub(crate) max_size: u64,
    pub(crate) contents: Option<Duration>,
}

impl Default for Draft {
    fn default() -> Self {
        let Statistics { keep, client, query, rate, queue, max_size, contents, .. } = Statistics::default();
        Self { place: DatabasePlace::Default, keep, client, query, rate, queue, max_size, contents }
    }
}
