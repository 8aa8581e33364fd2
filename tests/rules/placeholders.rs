//! Placeholders in the fields that rules write, in redirects, and in maps.

use crate::with_rules;
use larder_testkit::{Larder, Origin, Seen, eventually, site};

/// Returns an origin whose content is the value of this field of the request.
fn echo(field: &'static str) -> Origin {
    Origin::by(move |seen: &Seen| {
        format!("200 OK\nCache-Control: max-age=100\n\n{}", seen.field(field).unwrap_or("-"))
    })
}

#[test]
fn fields_of_requests_and_replies_get_parts_of_the_request() {
    let origin = echo("x-from");
    let rules = "[[site.rule]]\nmatch = { path = '/u/*' }\n\
                 request = { set = { X-From = '{client} {scheme}://{host}{uri} {1}' } }\n\
                 reply = { set = { X-Outcome = '{outcome} {1}' }, add = { Link = '<https://{host}{path}>' } }\n";
    let larder = with_rules(&origin, rules);
    let ask = || larder.ask("GET /u/a%2Fb?c\nHost: Site.Test\nX-From: forged");
    for outcome in ["miss a%2Fb", "hit a%2Fb"] {
        let answer = ask();
        assert_eq!(answer.text(), "127.0.0.1 http://site.test/u/a%2Fb?c a%2Fb");
        assert_eq!(answer.field("x-outcome"), Some(outcome));
        assert_eq!(answer.field("link"), Some("<https://site.test/u/a%2Fb>"));
    }
}

#[test]
fn a_request_has_one_id_in_logs_replies_and_at_the_origin() {
    let origin = echo("x-request-id");
    let rules = "[[site.rule]]\nreply = { set = { X-Request-Id = '{id}' } }\n";
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("access.log");
    let top =
        format!("request_id = 'X-Request-Id'\naccess_log = 'json'\naccess_log_file = '{}'\n", log.display());
    let wait_for = |id: &str| {
        let line = format!("\"id\":\"{id}\"");
        let has_it = || std::fs::read_to_string(&log).is_ok_and(|text| text.contains(&line));
        eventually("the line with the id", || has_it().then_some(()));
    };
    for (trust, is_kept) in [("127.0.0.1", true), ("10.0.0.0/8", false)] {
        let larder = Larder::start(&format!("{top}trust = '{trust}'\n{}", site(&[&origin], rules)));
        let miss = larder.ask("GET /\nX-Request-Id: Root=1-a");
        let id = miss.field("x-request-id").expect("an id");
        assert_eq!((miss.text(), id == "Root=1-a"), (id, is_kept));
        wait_for(id);
        let hit = larder.get("/");
        let own = hit.field("x-request-id").expect("an id");
        assert!(hit.is_hit() && own.len() == 32 && own != id, "{own}");
        wait_for(own);
    }
}

#[test]
fn urls_with_capitals_are_redirected_to_lower_case() {
    let origin = Origin::always("200 OK\n\nx");
    let rules = "[[site.rule]]\nmatch = { path = '~[A-Z]' }\nredirect = { to = '{path:lower}{query}', status = 301 }\n";
    let larder = with_rules(&origin, rules);
    for (path, location) in [("/About/Us?Q=1", "/about/us?Q=1"), ("/%41bout", "/about"), ("/a%2FB", "/a%2Fb")]
    {
        assert_eq!(larder.get(path).field("location"), Some(location), "{path}");
        assert_eq!(larder.get(location).status, 200, "{location}");
    }
}

#[test]
fn placeholders_that_cannot_be_known_are_refused_by_the_config() {
    let origin = Origin::always("200 OK\n\nx");
    let larder = with_rules(&origin, "");
    for (rule, why) in [
        ("response = { set = { X-A = '{path}' } }", "placeholders are for request and reply"),
        (
            "request = { set = { X-A = '{outcome}' } }",
            "{outcome}, {origin} and {origin_time} are known only in replies",
        ),
        ("reply = { set = { X-A = '{1}' } }", "stand for parts of match.path"),
        ("rewrite = '/{client}'", "differ among requests that share a stored response"),
    ] {
        larder.reload(&site(&[&origin], &format!("[[site.rule]]\n{rule}\n")));
        larder.wait_for_log(why);
    }
    larder
        .reload(&site(&[&origin], "[[site.rule]]\nreply = { set = { X-A = '{clinet} {id} {\"a\":1}' } }\n"));
    eventually("the rule", || (larder.get("/").field("x-a") == Some("{clinet}  {\"a\":1}")).then_some(()));
    larder.wait_for_log("{clinet} stays as it is");
    larder.wait_for_log("{id} is empty without request_id");
}

#[test]
fn a_map_names_redirects_and_values_and_is_read_again() {
    let origin = echo("x-tenant");
    let folder = tempfile::tempdir().expect("a folder");
    let [moved, tenants] = ["moved", "tenants"].map(|name| folder.path().join(name));
    let many: String = (0..100_000).map(|number| format!("/p/{number} /new/{number}\n")).collect();
    std::fs::write(&moved, &many).expect("written");
    std::fs::write(&tenants, "/a alpha 1;\n").expect("written");
    let rules = format!(
        "[[site.rule]]\nmatch = {{ map = '{}' }}\nredirect = {{ to = '{{map}}{{query}}', status = 301 }}\n\
         [[site.rule]]\nmatch = {{ map = '{}' }}\nrequest = {{ set = {{ X-Tenant = '{{map}}' }} }}\n",
        moved.display(),
        tenants.display()
    );
    let larder = with_rules(&origin, &rules);
    let location = |path: &str| larder.get(path).field("location").map(str::to_owned);
    assert_eq!(location("/p/99999?a").as_deref(), Some("/new/99999?a"));
    assert_eq!([larder.get("/a").text(), larder.get("/b").text()], ["alpha 1", "-"]);
    assert!(larder.get("/b").is_hit());
    std::fs::write(&moved, "/b https://other.test/\n").expect("written");
    eventually("the map to be read", || {
        (location("/b").as_deref() == Some("https://other.test/")).then_some(())
    });
    assert_eq!(location("/p/99999"), None);
    std::fs::write(&moved, "/b javascript:x\n").expect("written");
    larder.wait_for_log("'javascript:x' is not a URL of a redirect");
}

#[test]
fn a_map_by_host_sends_the_origin_the_tenant_of_each_host() {
    let origin = echo("x-tenant");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tenants");
    std::fs::write(&file, "shop.test one;\nBlog.test two\n").expect("written");
    let rule = format!(
        "[[site.rule]]\nmatch.map = {{ file = '{}', by = 'host' }}\nrequest.set.X-Tenant = '{{map}}'\n",
        file.display()
    );
    let larder = with_rules(&origin, &rule);
    for (host, tenant) in [("shop.test", "one"), ("BLOG.test.:8080", "two"), ("other.test", "-")] {
        let answer = larder.ask(&format!("GET /x?a\nHost: {host}"));
        assert_eq!(answer.text(), tenant, "{host}");
    }
}

#[test]
fn parameters_and_cookies_stand_in_redirects_and_fields() {
    let origin = echo("x-from");
    let rules = "[[site.rule]]\nmatch = { path = '/old' }\nredirect = '/new/{query:id}'\n\
                 [[site.rule]]\nkey_cookies = 'lang'\nrequest = { set = { X-From = '{cookie:lang} {query:id}' } }\n";
    let larder = with_rules(&origin, rules);
    for (query, location) in [
        ("a=1&id=5&id=6", "/new/5"),
        ("id=%0d%0aX:y", "/new/%0d%0aX:y"),
        ("id=a?b", "/new/a%3Fb"),
        ("id=/evil.test", "/new//evil.test"),
        ("xid=1", "/new/"),
    ] {
        assert_eq!(larder.get(&format!("/old?{query}")).field("location"), Some(location), "{query}");
    }
    assert_eq!(larder.ask("GET /a?id=7\nCookie: slang=en; lang=de").text(), "de 7");
    assert_eq!(larder.ask("GET /a?id=7\nCookie: lang=fr").text(), "fr 7");
}

#[test]
fn fields_and_cookies_for_origins_have_separate_responses_or_none() {
    let origin = echo("x-from");
    let larder = with_rules(&origin, "[[site.rule]]\nrequest.set.X-From = '{field:X-A}{cookie:b}'\n");
    for (field, text) in [("X-A: 1", "1"), ("Cookie: b=2", "2"), ("A: b", "")] {
        let ask = || larder.ask(&format!("GET /\n{field}"));
        assert_eq!((ask().text(), ask().is_hit(), ask().field("vary")), (text, true, Some("Cookie, X-A")));
    }
    let larder =
        with_rules(&origin, "[[site.rule]]\nmatch.field = 'X-A'\nrequest.set.X-From = '{field:X-A}'\n");
    for user in ["1", "2"] {
        assert_eq!(larder.ask(&format!("GET /\nX-A: {user}")).text(), user);
    }
    larder.get("/");
    assert!(larder.get("/").is_hit());
}

#[test]
fn a_host_without_its_first_label_stands_in_redirects() {
    let origin = Origin::always("200 OK\n\nx");
    let rules = "[[site.rule]]\nmatch = { host = 'www.*' }\nredirect = 'https://{1}{uri}'\n\
                 [[site.rule]]\nmatch = { path = '/old/*' }\nredirect = '{1}'\n";
    let larder = Larder::start(&format!("[[site]]\norigin = '{}'\n{rules}", origin.url()));
    let location = |request: &str| larder.ask(request).field("location").map(str::to_owned);
    assert_eq!(location("GET /a?b\nHost: www.Shop.test").as_deref(), Some("https://shop.test/a?b"));
    assert_eq!(location("GET /a\nHost: shop.test"), None);
    for (path, leads_to) in [
        ("/old/a/b", "/a/b"),
        ("/old/https://evil.test/", "/https://evil.test/"),
        ("/old//evil.test", "/evil.test"),
    ] {
        assert_eq!(location(&format!("GET {path}\nHost: shop.test")).as_deref(), Some(leads_to), "{path}");
    }
}

#[test]
fn rules_see_the_id_in_force_on_misses_and_hits() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    let rules = "[[site.rule]]\nmatch = { field = { X-Request-Id = 'forged' } }\nrespond = 403\n\
                 [[site.rule]]\nreply = { set = { X-Seen = '{field:X-Request-Id}' } }\n";
    for (trust, status) in [("10.0.0.0/8", 200), ("127.0.0.1", 403)] {
        let top = format!("request_id = 'X-Request-Id'\ntrust = '{trust}'\n");
        let larder = Larder::start(&format!("{top}{}", site(&[&origin], rules)));
        for id in ["forged", "forged", "other"] {
            let answer = larder.ask(&format!("GET /\nX-Request-Id: {id}"));
            let is_refused = status == 403 && id == "forged";
            assert_eq!(answer.status == 403, is_refused, "{trust} {id}");
            let seen = answer.field("x-seen").filter(|_| !is_refused);
            assert_eq!(seen.map(|own| own == id), (!is_refused).then_some(status == 403), "{trust} {id}");
        }
        let answer = larder.ask("GET /");
        assert!(answer.is_hit() && answer.field("x-seen").is_some_and(|own| own.len() > "other".len()));
    }
}
