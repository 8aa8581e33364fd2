//! Ages and lifetimes against an independent implementation of RFC 9111, on responses that both understand:
//! explicit, well-formed lifetimes, and clocks that agree (the other implementation omits `apparent_age`).
#![allow(clippy::unwrap_used, reason = "the helpers are tests, too")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_cache_semantics::{CacheOptions, CachePolicy};
use larder_semantics::date;
use larder_semantics::history::History;
use larder_semantics::storable::{Rules, Times, storable};
use proptest::prelude::*;

const NOW: u32 = 1_700_000_000;

fn at(time: u32) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(time.into())
}

fn cache_control() -> impl Strategy<Value = Vec<String>> {
    let directive = prop_oneof![
        (0..300_u32).prop_map(|seconds| format!("max-age={seconds}")),
        (0..300_u32).prop_map(|seconds| format!("s-maxage={seconds}")),
        Just("public".to_owned()),
        Just("private".to_owned()),
        Just("no-store".to_owned()),
        Just("must-revalidate".to_owned()),
    ];
    proptest::collection::vec(directive, 0..4).prop_filter("one of a kind", |directives| {
        let name = |d: &String| d.split('=').next().map(str::to_owned);
        (1..directives.len()).all(|n| directives[..n].iter().all(|d| name(d) != name(&directives[n])))
    })
}

prop_compose! {
    fn response()(
        control in cache_control(),
        expires in proptest::option::of(-100..300_i64),
        age in proptest::option::of(0..100_u32),
    ) -> HeaderMap {
        let mut map = HeaderMap::new();
        let text = |offset: i64| date::format((i64::from(NOW) + offset) as u32);
        let time = |offset| header::HeaderValue::from_bytes(&text(offset)).unwrap();
        map.insert(header::ETAG, "\"a\"".parse().unwrap());
        map.insert(header::DATE, time(0));
        for directive in control {
            map.append(header::CACHE_CONTROL, directive.parse().unwrap());
        }
        if let Some(offset) = expires {
            map.insert(header::EXPIRES, time(offset));
        }
        if let Some(age) = age {
            map.insert(header::AGE, age.into());
        }
        map
    }
}

proptest! {
    #[test]
    fn both_agree(response in response(), authorized: bool, later in 0..400_u32) {
        let explicit = response.contains_key("expires")
            || response.get_all("cache-control").iter().any(|v| v.to_str().unwrap().contains("age="));
        prop_assume!(explicit);

        let mut request = Request::get("http://a/").body(()).unwrap();
        if authorized {
            request.headers_mut().insert(header::AUTHORIZATION, "x".parse().unwrap());
        }
        let mut theirs = Response::new(());
        *theirs.headers_mut() = response.clone();
        let policy = CachePolicy::new_options(&request, &theirs, at(NOW), CacheOptions::default());

        let times = Times { requested: NOW, received: NOW, by_age: false, history: History::default() };
        let (rules, ok) = (Rules::default(), StatusCode::OK);
        let ours = storable(&rules, &Method::GET, request.headers(), ok, &response, times);
        prop_assert_eq!(ours.is_ok(), policy.is_storable());
        if let Ok(ours) = ours {
            let now = NOW + later;
            prop_assert_eq!(ours.ttl(now).max(0) as u64, policy.time_to_live(at(now)).as_secs());
            prop_assert_eq!(ours.ttl(now) <= 0, policy.is_stale(at(now)));
        }
    }
}
