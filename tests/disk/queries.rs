//! `No-Vary-Search` and what outlives the process: a stored response is known by its own URL first.

use crate::support::{Larder, Origin};
use crate::{config, end, ready, written};

const HIT: &str = "hit; detail=no-vary-search";

#[test]
fn after_a_restart_a_response_answers_other_queries_once_its_own_url_was_asked_for() {
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
    let larder = start();
    larder.get("/a?utm=1");
    larder.get("/b?utm=1");
    assert_eq!(larder.get("/a?utm=2").cache(), HIT);
    written(&larder, 2);
    end(larder);

    let larder = start();
    let (a, b) = ("/a?utm=1 0", "/b?utm=1 1");
    assert_eq!((larder.get("/a?utm=1").text(), larder.get("/a?utm=2").text()), (a, a));
    // The response for /b is not known yet, so that the purge of another URL leaves it for its own.
    purge(&larder, "/b?utm=2");
    assert_eq!(larder.get("/b?utm=1").text(), b);
    assert_eq!(larder.get("/b?utm=3").text(), b);
    assert_eq!(larder.get("/b?utm=2").text(), "/b?utm=2 2", "it was purged");
    // What was fetched last has taken the place of all others.
    assert_eq!(larder.get("/b?utm=1").text(), "/b?utm=2 2");
    purge(&larder, "/a?utm=3");
    assert_eq!(larder.get("/a?utm=1").text(), "/a?utm=1 3", "it was known");
    assert_eq!(origin.count(), 4);
}
