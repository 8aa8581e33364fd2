//! Caching from the view of clients and origins, by section of RFC 9111 and related RFCs. Unit tests cover each rule as
//! a pure function; these tests combine the rules with sockets and time.

mod adaptive;
mod ahead;
mod client_prefetch;
mod conditions;
mod early_hints;
mod freshness;
mod groups;
mod heads;
mod invalidation;
mod no_vary_search;
mod outcomes;
mod prefetch;
mod prefetch_limits;
mod queries;
mod ranges;
mod sites;
mod slow;
mod staleness;
mod storing;
mod updates;
mod validation;
mod variants;

/// Returns the HTTP date that is `seconds_ago` before now, or after now where negative.
fn date(seconds_ago: i64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let seconds = u32::try_from(now.as_secs() as i64 - seconds_ago).expect("before 2106");
    String::from_utf8_lossy(&larder_semantics::date::format(seconds)).into_owned()
}
