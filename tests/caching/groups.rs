//! RFC 9875: responses of a group are invalidated together, within one origin.

use larder_testkit::{Answer, Larder, Origin};

/// Returns an origin that answers a GET with the groups in its path, separated by dots, and other methods with
/// `answer`.
fn origin(answer: &'static str) -> Origin {
    Origin::by(move |seen| match (seen.method.as_str(), seen.field("if-none-match")) {
        ("GET", None) => grouped(&seen.target, seen.number),
        ("GET", Some(_)) => "304 Not Modified\nCache-Control: max-age=100\nETag: \"1\"".to_owned(),
        _ => answer.to_owned(),
    })
}

fn grouped(target: &str, number: usize) -> String {
    let groups: Vec<_> = target[1..].split('.').map(|group| format!("\"{group}\"")).collect();
    let groups = groups.join(", ");
    format!("200 OK\nCache-Control: max-age=100\nETag: \"1\"\nCache-Groups: {groups}\n\nanswer {number}")
}

/// Returns, for each of `paths`, whether it is a hit after `request`, which the origin answers with `answer`.
fn kept(paths: &[&str], request: &str, answer: &'static str) -> Vec<bool> {
    let origin = origin(answer);
    let larder = Larder::before(&origin);
    paths.iter().for_each(|path| _ = larder.get(path));
    larder.ask(request);
    paths.iter().map(|path| larder.get(path).is_hit()).collect()
}

const INVALIDATES: &str = "200 OK\nCache-Group-Invalidation: \"users\", \"paths\"";

#[test]
fn section_3_the_answer_to_an_unsafe_request_invalidates_groups() {
    let paths = ["/users", "/feeds.users", "/paths", "/feeds", "/Users", "/users2"];
    for request in ["POST /", "PUT /feeds-of/1\n\nnew", "DELETE /x", "BREW /pot"] {
        assert_eq!(kept(&paths, request, INVALIDATES), [false, false, false, true, true, true], "{request}");
    }
}

#[test]
fn section_3_whatever_its_status() {
    for answer in ["500 Oops", "404 Not Found", "303 See Other", "204 No Content"] {
        let answer: &'static str = format!("{answer}\nCache-Group-Invalidation: \"users\"").leak();
        assert_eq!(kept(&["/users", "/feeds"], "POST /", answer), [false, true], "{answer}");
    }
}

#[test]
fn section_3_the_answer_to_a_safe_request_invalidates_nothing() {
    assert_eq!(kept(&["/users"], "OPTIONS /", INVALIDATES), [true]);
    let origin = Origin::always(
        "200 OK\nCache-Control: max-age=100\nCache-Groups: \"a\"\nCache-Group-Invalidation: \"a\"",
    );
    let larder = Larder::before(&origin);
    assert_eq!(
        [larder.get("/a"), larder.get("/b"), larder.get("/a")].map(|answer| answer.is_hit()),
        [false, false, true]
    );
}

#[test]
fn section_2_1_groups_belong_to_one_origin() {
    let origin = origin(INVALIDATES);
    let larder = Larder::before(&origin);
    let elsewhere = "GET /users\nHost: other.test";
    larder.ask(elsewhere);
    larder.get("/users");
    larder.ask("POST /");
    assert!(larder.ask(elsewhere).is_hit());
    assert!(!larder.get("/users").is_hit());
}

#[test]
fn malformed_group_fields_invalidate_nothing_and_valid_ones_are_passed_on() {
    assert_eq!(kept(&["/users"], "POST /", "200 OK\nCache-Group-Invalidation: \"users\", users"), [true]);
    let origin = origin(INVALIDATES);
    let larder = Larder::before(&origin);
    for _ in 0..2 {
        assert_eq!(larder.get("/a.b").field("cache-groups"), Some("\"a\", \"b\""));
    }
    assert_eq!(larder.ask("POST /").field("cache-group-invalidation"), Some("\"users\", \"paths\""));
}

#[test]
fn an_invalidation_of_too_many_groups_reaches_the_whole_origin() {
    let names: Vec<_> = (0..200).map(|n| format!("\"{n}\"")).collect();
    let answer: &'static str = format!("200 OK\nCache-Group-Invalidation: {}", names.join(", ")).leak();
    assert_eq!(kept(&["/7", "/none"], "POST /", answer), [false, false]);
}

#[test]
fn an_invalidated_response_is_validated_once_and_never_stands_in() {
    let origin = origin(INVALIDATES);
    let larder = Larder::before(&origin);
    larder.get("/users");
    larder.ask("POST /");
    let validated = larder.get("/users");
    assert_eq!(
        (validated.text(), validated.cache().as_str()),
        ("answer 0", "fwd=stale; fwd-status=304; detail=invalidated")
    );
    assert!(larder.get("/users").is_hit());
    larder.ask("POST /");
    origin.die();
    assert_eq!(larder.get("/users").status, 502);
}

#[test]
fn an_invalidation_wins_over_a_fetch_that_began_before_it() {
    let (gate, origin) = Origin::gated(|seen, held| match seen.method.as_str() {
        "GET" => {
            if seen.number == 0 {
                held.pass();
            }
            let body = format!("answer {}", seen.number);
            Answer::with_body("200 OK\nCache-Control: max-age=100\nCache-Groups: \"users\"", body.as_bytes())
        }
        _ => Answer::with_body(INVALIDATES, b""),
    });
    let larder = Larder::before(&origin);
    let mut before = larder.client();
    before.send("GET /users/1");
    origin.wait_for(1);
    assert_eq!(larder.client().ask("POST /users").status, 200);
    // The clients wait for the fill in flight, and cannot use its response because it is older than the invalidation.
    let mut after: Vec<_> = (0..8).map(|_| larder.client()).collect();
    after.iter_mut().for_each(|client| client.send("GET /users/1"));
    gate.open();
    assert_eq!(before.receive("GET").text(), "answer 0");
    for client in &mut after {
        assert_eq!(client.receive("GET").text(), "answer 2");
    }
    larder.settle();
    assert_eq!((larder.get("/users/1").text(), origin.count()), ("answer 2", 3));
}
