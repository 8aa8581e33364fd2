//! Redirects: a door follows them up to a page, within a limit.

use crate::caller::{Caller, DOORS, open};
use larder_testkit::Origin;

/// Returns an origin where `/5` redirects to `/4`, and so on to `/0`, which is a page; `/loop` redirects in a circle.
fn leading() -> Origin {
    Origin::by(|seen| match seen.target.trim_start_matches('/') {
        "0" => "200 OK\nCache-Control: max-age=100\n\nthe end".to_owned(),
        "loop" => "302 Found\nLocation: loop2\n\n".to_owned(),
        "loop2" => "302 Found\nLocation: /loop\n\n".to_owned(),
        "secure" => "301 Moved Permanently\nLocation: https://example.com/\n\n".to_owned(),
        "odd" => "301 Moved Permanently\nLocation: ftp://example.com/\n\n".to_owned(),
        "nowhere" => "302 Found\n\nno location".to_owned(),
        number => {
            let number: u32 = number.parse().expect("a number");
            let status = [301, 302, 303, 307, 308][number as usize % 5];
            format!("{status} Somewhere\nCache-Control: max-age=100\nLocation: {}\n\n", number - 1)
        }
    })
}

#[test]
fn a_redirect_chain_leads_to_its_page_and_hits_next_time() {
    for door in DOORS {
        let origin = leading();
        let larder = open("");
        let mut caller = Caller::to(&larder, door);
        for _ in 0..2 {
            assert_eq!(caller.page(&format!("{}/10", origin.url())), "the end", "{door}");
            larder.settle();
        }
        assert_eq!(origin.count(), 11, "{door}");
        assert_eq!((larder.stat("hits"), larder.stat("misses"), larder.stat("requests")), (1, 1, 2));
    }
}

#[test]
fn a_redirect_that_leads_nowhere_is_a_failure() {
    let origin = leading();
    let larder = open("[doors]\ncross_scheme = false\nredirects = 3");
    let rows = [
        ("/loop", 502, "redirects form a loop at"),
        ("/4", 502, "more than 3 redirects, the last one to"),
        ("/secure", 502, "changes of scheme are not allowed"),
        ("/odd", 502, "scheme 'ftp' is neither http nor https"),
        ("/nowhere", 302, "answered 302 Found"),
    ];
    for (path, status, why) in rows {
        for door in ["thrift", "line"] {
            let failure = Caller::to(&larder, door).failure(&format!("{}{path}", origin.url()));
            assert_eq!(failure.status, status, "{door} {failure:?}");
            assert!(failure.why.contains(why), "{door} {failure:?}");
        }
    }
    assert_eq!(Caller::to(&larder, "line").page(&format!("{}/3", origin.url())), "the end");
}
