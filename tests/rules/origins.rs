//! Rules that send a part of a site's paths to other origins.

use crate::with_rules;
use larder_testkit::{Answer, Gate, Larder, Origin};

fn echo(name: &'static str) -> Origin {
    Origin::by(move |seen| {
        let host = seen.field("host").unwrap_or("-");
        format!("200 OK\nCache-Control: max-age=100\n\n{name} {} {host}", seen.target)
    })
}

#[test]
fn paths_have_origins_paths_and_hosts_of_their_own_for_all_clients() {
    let (site, api, old) = (echo("site"), echo("api"), echo("old"));
    let rules = format!(
        "[[site.rule]]\nmatch = {{ cookie = 'c' }}\nttl = '1h'\nstop = true\n\
         [[site.rule]]\nmatch = {{ path = '/api/*' }}\norigin = '{}'\nrewrite = '/v1/{{1}}'\nhost = 'api.test'\n\
         [[site.rule]]\nmatch = {{ path = '/old/*' }}\norigin = ['{}']\nhost = 'origin'\n\
         [[site.rule]]\nmatch = {{ path = '/x*' }}\nrewrite = '/inner/{{1}}'\n",
        api.url(),
        old.url()
    );
    let larder = with_rules(&site, &rules);
    for (path, answer) in [
        ("/api/a%20b?q=1", "api /v1/a%20b?q=1 api.test".to_owned()),
        ("/old/a?b", format!("old /old/a?b {}", old.address)),
        ("/xy/z", "site /inner/y/z site.test".to_owned()),
        ("/a", "site /a site.test".to_owned()),
    ] {
        // All clients share the stored response of the first client; so `stop` for some clients does not change the
        // origin.
        assert_eq!(larder.ask(&format!("GET {path}\nCookie: c=1")).text(), answer, "{path}");
        let other = larder.get(path);
        assert_eq!((other.text(), other.is_hit()), (&*answer, true), "{path}");
    }
    assert_eq!(larder.get("/x../secret").status, 502);
    larder.settle();
    let why = larder.ask_admin("GET /why?url=http://site.test/api/b").json();
    assert_eq!((&why["origins"][0], &why["key"]), (&api.url().into(), &"http://site.test/api/b".into()));
    assert!(larder.ask_admin("GET /stats").text().contains(&api.url()));
}

#[test]
fn rules_say_how_often_and_how_long_origins_are_asked() {
    let never = Gate::default();
    let held = never.clone();
    let origin = Origin::answering(move |_| Answer::default().then_wait(&held));
    let larder = with_rules(
        &origin,
        "[[site.rule]]\nfirst_byte = '100ms'\n\
         [[site.rule]]\nmatch = { path = '/once' }\nretries = 0\n\
         [[site.rule]]\nmatch = { path = '/often' }\nretries = 3\n",
    );
    for (path, tries) in [("/", 2), ("/once", 1), ("/often", 4)] {
        let answer = larder.get(path);
        assert_eq!((answer.status, origin.count_of(path)), (504, tries), "{path}");
    }
    never.open();
}

#[test]
fn a_failed_origin_of_a_rule_does_not_affect_the_sites_origin() {
    let (site, api) = (echo("site"), echo("api"));
    let rule = format!("[[site.rule]]\nmatch = {{ path = '/api/*' }}\norigin = '{}'\n", api.url());
    let larder = with_rules(&site, &rule);
    api.die();
    assert_eq!([larder.get("/api/a").status, larder.get("/a").status], [502, 200]);
}

#[test]
fn another_origin_answers_in_place_of_one_that_declines() {
    let app = Origin::by(|seen| match (seen.method.as_str(), seen.target.as_str()) {
        ("GET", "/here") => "200 OK\n\napp".to_owned(),
        _ => "404 Not Found\n\nabsent".to_owned(),
    });
    let mirror = Origin::by(|seen| match seen.target.as_str() {
        "/old" => "200 OK\nCache-Control: max-age=100\n\nmirror".to_owned(),
        _ => "410 Gone\n\ngone".to_owned(),
    });
    let config = format!(
        "[[site]]\norigin = ['{}', '{} backup']\n[[site.rule]]\nretry_on = [404, '5xx']\n",
        app.url(),
        mirror.url()
    );
    let larder = Larder::start(&config);
    for (request, answer) in [
        ("GET /here", (200, "app")),
        ("GET /old", (200, "mirror")),
        ("GET /nowhere", (410, "gone")),
        ("POST /old", (404, "absent")),
    ] {
        let reply = larder.ask(request);
        assert_eq!((reply.status, reply.text()), answer, "{request}");
    }
    assert!(larder.get("/old").is_hit());
    mirror.die();
    assert_eq!(larder.get("/nowhere").text(), "absent", "the first answer counts if there is no other");
}

#[test]
fn a_client_stays_with_its_origin_when_another_has_the_page() {
    let app = Origin::by(|seen| match seen.target.as_str() {
        "/old" => "404 Not Found\n\nabsent".to_owned(),
        _ => "200 OK\n\napp".to_owned(),
    });
    let mirror = Origin::always("200 OK\n\nmirror");
    let larder = Larder::start(&format!(
        "[[site]]\norigin = ['{}', '{} backup']\nsticky = {{ cookie = 'o' }}\n[[site.rule]]\nretry_on = 404\n",
        app.url(),
        mirror.url()
    ));
    let first = larder.get("/");
    let cookie = first.field("set-cookie").and_then(|cookie| cookie.split(';').next()).expect("a cookie");
    let old = larder.ask(&format!("GET /old\nCookie: {cookie}"));
    assert_eq!((old.text(), old.field("set-cookie")), ("mirror", None));
}

#[test]
fn unsafe_methods_and_parameters_choose_origins() {
    let [site, writer, second] = ["site", "writer", "second"].map(echo);
    let rules = format!(
        "[[site.rule]]\nmatch = {{ method = ['POST', 'PUT'] }}\norigin = '{}'\n\
         [[site.rule]]\nmatch = {{ query = {{ v = '2' }} }}\norigin = '{}'\n",
        writer.url(),
        second.url()
    );
    let larder = with_rules(&site, &rules);
    for (request, name) in [
        ("GET /a", "site"),
        ("POST /a\n\nx", "writer"),
        ("PUT /a?v=1\n\nx", "writer"),
        ("GET /a?v=2", "second"),
        ("GET /a?v=%32", "second"),
        ("GET /a?v=1", "site"),
        ("GET /a?v=2", "second"),
    ] {
        let answer = larder.ask(request);
        assert!(answer.text().starts_with(name), "{request}: {}", answer.text());
    }
}
