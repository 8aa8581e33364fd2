//! `No-Vary-Search` and stored responses after a restart: such a response answers only its own URL.

use crate::{config, end, ready, written};
use larder_testkit::{Larder, Origin};

const HIT: &str = "hit; detail=no-vary-search";

#[test]
fn after_a_restart_a_stored_response_answers_its_own_url_only() {
    let directory = tempfile::tempdir().unwrap();
    let origin = Origin::by(|seen| match seen.method.as_str() {
        "GET" => format!(
            "200 OK\nCache-Control: max-age=3600\nNo-Vary-Search: params=(\"utm\")\n\n{} {}",
            seen.target, seen.number
        ),
        _ => "204 No Content".to_owned(),
    });
    let start = || {
        let larder = Larder::start(&config(directory.path(), &origin, ""));
        ready(&larder);
        larder
    };
    let purge = |larder: &Larder, path: &str| {
        let purge = format!("POST /purge?url=http://site.test{path}&hard\nLarder-Admin: 1");
        assert_eq!(larder.ask_admin(&purge).status, 200);
    };
    let get = |larder: &Larder, path: &str| {
        let response = larder.get(path);
        // The response is stored a moment after the client has received it.
        larder.settle();
        response
    };
    let larder = start();
    get(&larder, "/a?utm=1");
    get(&larder, "/b?utm=1");
    assert_eq!(get(&larder, "/a?utm=2").cache(), HIT);
    written(&larder, 2);
    end(larder);

    let larder = start();
    // The process cannot know whether /b?utm=2 was changed before it started. While the field is not known, a purge
    // applies to its own URL only.
    purge(&larder, "/b?utm=2");
    assert_eq!(get(&larder, "/b?utm=1").text(), "/b?utm=1 1");
    assert_eq!(get(&larder, "/b?utm=2").text(), "/b?utm=2 2", "it was purged");
    // The latest response has replaced the equivalent ones.
    assert_eq!(get(&larder, "/b?utm=1").text(), "/b?utm=2 2");
    assert_eq!(get(&larder, "/a?utm=1").text(), "/a?utm=1 0");
    purge(&larder, "/a?utm=3");
    assert_eq!(get(&larder, "/a?utm=1").text(), "/a?utm=1 3", "it was known");
    assert_eq!(get(&larder, "/a?utm=2").text(), "/a?utm=1 3");
    assert_eq!(origin.count(), 4);
}
