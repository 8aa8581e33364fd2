//! Rules of all sites (`[[rule]]`): each site has them before its own.

use larder_testkit::{Larder, Origin};

use super::refused::check_config;

const SITES: &str = "[[site]]\nhosts = 'a.test'\norigin = 'http://127.0.0.1:9'\n[[site]]\nhosts = 'b.test'\norigin = 'http://127.0.0.1:9'\n";

#[test]
fn all_sites_have_a_rule_before_their_own() {
    let origin = Origin::always("200 OK\n\nx");
    let larder = Larder::start(&format!(
        "[[rule]]\nreply = {{ set = {{ X-A = 'all', X-B = 'all' }} }}\n[[rule]]\nmatch = {{ path = '/closed' }}\nrespond = 403\n\
         [[site]]\nhosts = 'a.test'\norigin = '{0}'\n[[site.rule]]\nreply = {{ set = {{ X-A = 'own' }} }}\n\
         [[site]]\norigin = '{0}'\n",
        origin.url()
    ));
    let fields = |host: &str| {
        let answer = larder.ask(&format!("GET /\nHost: {host}"));
        ["x-a", "x-b"].map(|name| answer.field(name).map(str::to_owned))
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(fields("a.test"), [text("own"), text("all")]);
    assert_eq!(fields("b.test"), [text("all"), text("all")]);
    let statuses = ["a.test", "b.test"].map(|host| larder.ask(&format!("GET /closed\nHost: {host}")).status);
    assert_eq!(statuses, [403, 403]);
}

#[test]
fn a_mistake_in_a_rule_of_all_sites_is_told_once() {
    for (rule, code, expected) in [
        (
            "ttl = '1h'\nmatch = { cookie = 'a', status = 404 }\ndeny = '10.0.0.0/8'",
            2,
            Some("'deny' takes effect before"),
        ),
        ("cache = false\nttl = '1h'", 0, Some("its lifetime has no effect")),
        ("cache = false\nmatch = { host = 'a.test' }", 0, None),
        ("cache = false\nmatch = { host = 'c.test' }", 0, Some("larder.toml:1: the rule never holds")),
    ] {
        let (ended, said) = check_config(&format!("[[rule]]\n{rule}\n{SITES}"));
        let told: Vec<_> = said.lines().filter(|line| line.contains("larder.toml:1")).collect();
        assert_eq!(ended, Some(code), "{said}");
        assert_eq!(told.len(), usize::from(expected.is_some()), "{rule}: {said}");
        assert!(expected.is_none_or(|text| told[0].contains(text)), "{rule}: {said}");
    }
    let (code, said) = check_config("[[rule]]\ncache = false\n[forward]\nlisten = '127.0.0.1:9'\n");
    assert!(
        code == Some(2) && said.contains("larder.toml:1: there is no [[site]] that has this [[rule]]"),
        "{said}"
    );
}
