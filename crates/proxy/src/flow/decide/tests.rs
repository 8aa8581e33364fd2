//! Tables of decisions.

use super::*;

const NOW: u32 = 1_000;

fn get() -> Terms {
    Terms { is_get: true, ..Terms::default() }
}

/// Returns a response with a validator that is fresh for 60 seconds, and usable for 30 more while it is refreshed.
fn aged(age: u32) -> StoredResponse {
    let freshness = Freshness {
        received: NOW - age,
        lifetime: 60,
        stale_while_revalidate: 30,
        flags: Flags::VALIDATOR,
        ..Default::default()
    };
    StoredResponse { freshness, is_own: true, is_part: false, unfit: None }
}

fn guessed(stored: StoredResponse) -> StoredResponse {
    let flags = stored.freshness.flags.with(Flags::HEURISTIC);
    StoredResponse { freshness: Freshness { flags, ..stored.freshness }, ..stored }
}

#[test]
fn each_decision_names_its_reason() {
    use Decision::{Fetch, Hit, Pass, Refuse, Revalidate, StaleAndRefresh};
    let nothing = Err(Why::Absent);
    let (fresh, stale, old) = (aged(10), aged(70), aged(100));
    let part = StoredResponse { is_part: true, ..fresh };
    let other = |stored| StoredResponse { is_own: false, ..stored };
    let unmet = |stored| StoredResponse { unfit: Some(Why::RequestIfMatch), ..stored };
    let asking = |directives| Terms { directives, ..get() };
    let no_cache = asking(RequestDirectives { no_cache: true, ..Default::default() });
    let tolerant = asking(RequestDirectives { max_stale: Some(50), ..Default::default() });
    let offline = asking(RequestDirectives { only_if_cached: true, ..Default::default() });
    let head = Terms::default();
    let uncached = Terms { bypass: Some(Why::Bypass), ..get() };
    let prefetch = Terms { is_for_cache_only: true, ..get() };
    let table = [
        (get(), nothing, Fetch(Why::Absent)),
        (get(), Err(Why::VariantAbsent), Fetch(Why::VariantAbsent)),
        (get(), Ok(fresh), Hit(Why::Fresh)),
        (get(), Ok(other(fresh)), Hit(Why::EquivalentQuery)),
        (get(), Ok(part), Hit(Why::Fresh)),
        (get(), Ok(StoredResponse { unfit: Some(Why::RangeAbsent), ..part }), Fetch(Why::RangeAbsent)),
        (get(), Ok(unmet(fresh)), Revalidate(Why::RequestIfMatch)),
        (get(), Ok(unmet(stale)), Revalidate(Why::RequestIfMatch)),
        (get(), Ok(unmet(old)), Revalidate(Why::Expired)),
        (get(), Ok(stale), StaleAndRefresh),
        (get(), Ok(old), Revalidate(Why::Expired)),
        (get(), Ok(other(old)), Fetch(Why::Expired)),
        (get(), Ok(guessed(fresh)), Hit(Why::Fresh)),
        (Terms { forbids_guess: true, ..get() }, Ok(fresh), Hit(Why::Fresh)),
        (Terms { forbids_guess: true, ..get() }, Ok(guessed(fresh)), Revalidate(Why::CookieGuess)),
        (Terms { forbids_guess: true, ..get() }, Ok(guessed(old)), Revalidate(Why::Expired)),
        (Terms { is_validated: true, ..get() }, Ok(fresh), Revalidate(Why::AlwaysValidated)),
        (Terms { is_ahead: true, ..get() }, Ok(fresh), Revalidate(Why::PositionAhead)),
        (no_cache, Ok(fresh), Revalidate(Why::RequestNoCache)),
        (tolerant, Ok(old), Hit(Why::MaxStale)),
        (offline, Ok(fresh), Hit(Why::Fresh)),
        (offline, Ok(old), Refuse(Why::OnlyIfCached)),
        (offline, nothing, Refuse(Why::OnlyIfCached)),
        (head, Ok(fresh), Hit(Why::Fresh)),
        (head, Ok(old), Fetch(Why::Expired)),
        (uncached, Ok(fresh), Pass(Why::Bypass)),
        (prefetch, Ok(fresh), Hit(Why::Fresh)),
        (prefetch, Ok(stale), StaleAndRefresh),
        (prefetch, nothing, Refuse(Why::PrefetchNotStored)),
        (Terms { bypass: Some(Why::Method), ..prefetch }, nothing, Refuse(Why::PrefetchNotStored)),
    ];
    for (terms, stored, expected) in table {
        assert_eq!(decide(&terms, stored, NOW), expected, "{terms:?} {stored:?}");
    }
}

#[test]
fn requests_for_the_cache_only_never_ask_an_origin() {
    let only_if_cached = RequestDirectives { only_if_cached: true, no_cache: true, ..Default::default() };
    for age in (0..120).step_by(5) {
        for stored in [
            aged(age),
            guessed(aged(age)),
            StoredResponse { unfit: Some(Why::RangeAbsent), is_part: true, ..aged(age) },
        ] {
            for bits in 0..8 {
                let [forbids_guess, is_validated, is_ahead] = [1, 2, 4].map(|bit| bits & bit > 0);
                let terms = Terms { forbids_guess, is_validated, is_ahead, ..get() };
                for terms in [
                    Terms { is_for_cache_only: true, ..terms },
                    Terms { directives: only_if_cached, ..terms },
                ] {
                    let decision = decide(&terms, Ok(stored), NOW);
                    assert!(!decision.asks_origin(), "{decision:?}: {terms:?} {stored:?}");
                }
            }
        }
    }
}

#[test]
fn only_reads_without_content_and_upgrade_are_for_the_cache() {
    let table = [
        (Method::GET, false, false, None),
        (Method::GET, true, false, Some(Why::Bypass)),
        (Method::GET, false, true, Some(Why::Bypass)),
        (Method::HEAD, false, false, None),
        (Method::HEAD, false, true, None),
        (Method::HEAD, true, false, Some(Why::Method)),
        (Method::POST, false, false, Some(Why::Method)),
        (Method::OPTIONS, false, false, Some(Why::Method)),
    ];
    for (method, has_content, has_upgrade, expected) in table {
        assert_eq!(
            bypass(&method, has_content, has_upgrade),
            expected,
            "{method} {has_content} {has_upgrade}"
        );
    }
}
