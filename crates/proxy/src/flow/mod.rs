//! **The flow**: from a request to its reply, through the cache or to an origin.

pub(crate) mod answer;
mod change;
pub(crate) mod coalesce;
pub(crate) mod coded_forms;
pub(crate) mod combine;
pub(crate) mod conditions;
pub(crate) mod context;
pub(crate) mod decide;
pub(crate) mod drain;
pub(crate) mod early_hints;
pub(crate) mod equivalent;
pub(crate) mod fetch;
pub(crate) mod fetch_scope;
pub(crate) mod fill_task;
pub(crate) mod finish;
pub(crate) mod follow;
pub(crate) mod generated_etag;
pub(crate) mod pass;
pub(crate) mod prefetch;
pub(crate) mod reload;
pub(crate) mod revalidation;
mod rewrite;
pub(crate) mod serve;
pub(crate) mod storage_terms;
pub(crate) mod stored;
pub(crate) mod upstream;
pub(crate) mod worker;
