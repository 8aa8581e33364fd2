//! A service that decides whether clients are served.

use std::net::Ipv4Addr;

use larder_testkit::{Answer, Client, Larder, Origin, Response, eventually};

use super::with_rules;

/// A service that knows the sessions `ann` and `bob`, each by a cookie or a token.
fn service() -> Origin {
    Origin::by(|seen| {
        let shown = [seen.field("cookie"), seen.field("authorization")].into_iter().flatten();
        let user = shown.flat_map(|text| text.split([' ', '='])).find(|word| ["ann", "bob"].contains(word));
        match user {
            Some(user) => format!("204 No Content\nX-User: {user}\n\n"),
            None if seen.field("cookie").is_some() => "403 Forbidden\n\nno user of that name".to_owned(),
            None => "401 Unauthorized\nWWW-Authenticate: Bearer\n\nlog in first".to_owned(),
        }
    })
}

fn with_service(origin: &Origin, service: &Origin, keys: &str) -> Larder {
    let url = format!("http://{}/check", service.address);
    with_rules(origin, &format!("[[site.rule]]\nauth_request = {{ url = '{url}'{keys} }}\n"))
}

fn ask(larder: &Larder, cookie: &str) -> Response {
    larder.ask(&format!("GET /page?a=1\nCookie: {cookie}"))
}

#[test]
fn a_hit_is_served_only_after_the_service_allows_it() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\npage");
    let service = service();
    let larder = with_service(&origin, &service, "");
    assert_eq!(ask(&larder, "session=ann").status, 200);
    let hit = ask(&larder, "session=bob");
    assert_eq!((hit.text(), hit.is_hit()), ("page", true), "all who may read it share it");
    let refused = larder.ask("POST /page?a=1\n\nsecret");
    assert_eq!((refused.status, refused.text()), (401, "log in first"));
    assert_eq!(refused.field("www-authenticate"), Some("Bearer"));
    let asked = service.last();
    assert_eq!((&*asked.method, &*asked.target, asked.body.len()), ("GET", "/check", 0));
    for (name, value) in [("method", "POST"), ("uri", "/page?a=1"), ("for", "127.0.0.1"), ("proto", "http")] {
        assert_eq!(asked.field(&format!("x-forwarded-{name}")), Some(value), "{name}");
    }
    let page = ask(&larder, "session=eve");
    assert_eq!((page.status, page.text()), (403, "no user of that name"));
    assert_eq!(page.field("cache-status"), Some("Larder; detail=access-denied"));
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_permission_is_remembered_for_its_credential_alone() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\npage");
    let service = service();
    let larder = with_service(&origin, &service, ", cache = '1h', by = 'cookie:session'");
    for (cookie, status, asked) in [
        ("session=ann; seen=1", 200, 1),
        ("seen=2; session=ann", 200, 1),
        ("session=eve", 403, 2),
        ("session=eve", 403, 3),
        ("session=bob", 200, 4),
        ("session=annx", 403, 5),
        ("other=ann", 401, 6),
        ("session=ann", 200, 6),
    ] {
        assert_eq!((ask(&larder, cookie).status, service.count()), (status, asked), "{cookie}");
    }
    ask(&larder, "seen=1; session=x");
    let seen = service.last();
    assert_eq!(seen.field("cookie"), Some("session=x"), "it sees only what the permission is for");
    assert_eq!((seen.field("x-forwarded-uri"), seen.field("x-forwarded-for")), (None, None));
}

#[test]
fn responses_for_a_user_whom_the_service_names_are_stored_apart() {
    let origin = Origin::by(|seen| {
        format!("200 OK\nCache-Control: max-age=100\n\nfor {}", seen.field("x-user").unwrap_or("nobody"))
    });
    let larder = with_service(&origin, &service(), ", take = 'X-User'");
    for (cookie, text, is_hit) in [
        ("session=ann", "for ann", false),
        ("session=bob", "for bob", false),
        ("session=ann", "for ann", true),
        ("session=bob\nX-User: ann", "for bob", true),
    ] {
        let answer = ask(&larder, cookie);
        assert_eq!((answer.text(), answer.is_hit()), (text, is_hit), "{cookie}");
    }
    assert_eq!(ask(&larder, "session=ann").field("vary"), Some("Authorization, Cookie"));
}

#[test]
fn a_service_that_fails_closes_the_site_unless_the_rule_opens_it() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\npage");
    let failing = Origin::always("500 Oops\n\n");
    for (keys, status) in [("", 503), (", on_failure = 'closed'", 503), (", on_failure = 'open'", 200)] {
        let larder = with_service(&origin, &failing, keys);
        assert_eq!([1, 2].map(|_| ask(&larder, "session=ann").status), [status; 2], "{keys}");
        larder.wait_for_log("status 500");
    }
    let dead = service();
    dead.die();
    let answer = ask(&with_service(&origin, &dead, ""), "session=ann");
    assert_eq!((answer.status, answer.field("cache-status")), (503, Some("Larder; detail=auth-unanswered")));
}

#[test]
fn a_crowd_at_a_slow_service_leaves_turns_to_others() {
    let origin = Origin::always("200 OK\n\npage");
    let (gate, service) =
        Origin::gated(|_, gate| Answer::raw("").then_wait(gate).then("HTTP/1.1 204 No Content\r\n\r\n"));
    let larder = with_service(&origin, &service, ", on_failure = 'open'");
    let asking = |mut client: Client| {
        client.send("GET /page");
        client
    };
    let crowd: Vec<_> = (0..300).map(|_| asking(larder.client())).collect();
    eventually("the turns of one client", || (service.count() >= 240).then_some(()));
    let other = asking(Client::from(Ipv4Addr::new(127, 0, 0, 2), larder.address()));
    eventually("the other client", || (service.count() > 240).then_some(()));
    larder.settle();
    assert_eq!(service.count(), 241);
    gate.open();
    for mut client in crowd.into_iter().chain([other]) {
        assert_eq!(client.receive("GET").text(), "page");
    }
}

#[test]
fn responses_to_authorization_are_stored_if_the_rule_removes_it() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\npage");
    let (service, token) = (service(), "GET /page\nAuthorization: Bearer ann");
    let larder = with_service(&origin, &service, "");
    assert_eq!([1, 2].map(|_| larder.ask(token).is_hit()), [false, false], "RFC 9111, section 3.5");
    let url = format!("http://{}/check", service.address);
    let rule = format!("[[site.rule]]\nauth_request.url = '{url}'\nrequest.remove = 'Authorization'\n");
    let larder = with_rules(&origin, &rule);
    assert_eq!([1, 2].map(|_| larder.ask(token).is_hit()), [false, true]);
    assert_eq!(larder.get("/page").status, 401);
}
