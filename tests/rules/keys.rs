//! Rules for the keys of stored responses.

use crate::with_rules;
use larder_testkit::{Larder, Origin, site};

const ECHO: &str = "200 OK\nCache-Control: max-age=100\n\n";

fn echo() -> Origin {
    Origin::by(|seen| format!("{ECHO}{}", seen.target))
}

#[test]
fn dropped_query_parameters_are_neither_stored_apart_nor_sent() {
    let rules = "[[site.rule]]\nquery = { drop = ['@tracking', 'v'], sort = true }\n\
                 [[site.rule]]\nmatch = { path = '/kept' }\nquery = { keep = ['id'] }\n\
                 [[site.rule]]\nmatch = { path = '/none' }\nquery = 'drop'\n";
    let origin = echo();
    let larder = with_rules(&origin, rules);
    assert_eq!(larder.get("/a?b=2&utm_source=x&a=1&v=7").text(), "/a?a=1&b=2");
    for same in ["/a?a=1&b=2", "/a?b=2&a=1&fbclid=x", "/a?&a=1&&b=2"] {
        assert!(larder.get(same).is_hit(), "{same}");
    }
    assert!(!larder.get("/a?a=2&b=2").is_hit());
    assert_eq!(larder.get("/kept?x=1&id=2").text(), "/kept?id=2");
    assert!(larder.get("/kept?id=2&y").is_hit());
    assert_eq!(larder.get("/none?x").text(), "/none");
    assert!(larder.get("/none").is_hit());
}

#[test]
fn purges_of_any_spelling_reach_what_is_stored_under_another_query() {
    let larder_site = "purge_from = ['127.0.0.1']\n[[site.rule]]\nquery = { drop = '@tracking' }\n";
    let origin = echo();
    let larder = Larder::start(&site(&[&origin], larder_site));
    larder.get("/a?x=1");
    assert_eq!(larder.ask("PURGE /a?utm_source=y&x=1").status, 200);
    assert!(!larder.get("/a?x=1").is_hit());
    larder.settle();
    larder.ask_admin("POST /purge?url=http://site.test/a?gclid=1%26x=1&hard\nLarder-Admin: 1");
    assert!(!larder.get("/a?x=1").is_hit());
}

#[test]
fn responses_are_stored_apart_by_fields_and_cookies() {
    let origin = Origin::by(|seen| {
        format!("{ECHO}{} {}", seen.field("x-device").unwrap_or("-"), seen.field("cookie").unwrap_or("-"))
    });
    let rules = "[[site.rule]]\nmatch = { field = { User-Agent = '*Mobile*' } }\nrequest = { set = { X-Device = 'phone' } }\n\
                 [[site.rule]]\nmatch = { not = { field = { User-Agent = '*Mobile*' } } }\nrequest = { set = { X-Device = 'desktop' } }\n\
                 [[site.rule]]\nkey_fields = ['X-Device']\nkey_cookies = ['lang']\nrequest = { cookies = { keep = ['lang'] } }\n";
    let larder = with_rules(&origin, rules);
    let phone = "GET /\nUser-Agent: A Mobile B";
    assert_eq!(larder.ask(phone).text(), "phone -");
    assert!(larder.ask("GET /\nUser-Agent: Mobile").is_hit());
    assert_eq!(larder.get("/").text(), "desktop -");
    assert!(larder.ask("GET /\nX-Device: phone").is_hit());
    assert_eq!(larder.ask("GET /\nX-Device: phone").text(), "desktop -");
    assert_eq!(larder.ask("GET /\nCookie: a=1; lang=de").text(), "desktop lang=de");
    assert!(larder.ask("GET /\nCookie: lang=de; b=2").is_hit());
    assert!(!larder.ask("GET /\nCookie: lang=en").is_hit());
}

/// Asks for a page as each of 200 tenants, and returns the number of hits.
fn hits_of_tenants(larder: &Larder) -> usize {
    let mut client = larder.client();
    let is_hit = |tenant: &usize| {
        let answer = client.ask(&format!("GET /a?b\nX-Tenant: {tenant}"));
        assert_eq!(answer.text(), tenant.to_string());
        answer.is_hit()
    };
    (0..200).filter(is_hit).count()
}

#[test]
fn tenants_beyond_max_variants_are_stored_and_purged_together() {
    let origin = Origin::by(|seen| format!("{ECHO}{}", seen.field("x-tenant").unwrap_or("-")));
    let keys = "purge_from = ['127.0.0.1']\n[[site.rule]]\nmatch = { path = '/a' }\nkey_fields = 'X-Tenant'\n\
                tags = 'tenants'\n";
    let larder = Larder::start(&format!("[memory]\nmax_variants = 2\n{}", site(&[&origin], keys)));
    let purge = |scope: &str| {
        let purged = larder.ask_admin(&format!("POST /purge?{scope}&hard&count\nLarder-Admin: 1"));
        assert!(purged.text().contains(r#""objects": 200,"#), "{scope}: {}", purged.text());
    };
    let url = "url=http://site.test/a?b";
    let ways: [&dyn Fn(); 6] = [
        &|| purge(url),
        &|| purge("prefix=http://site.test/a"),
        &|| purge("glob=http://site.test/*a"),
        &|| purge("tag=tenants"),
        &|| _ = larder.ask("PURGE /a?b"),
        &|| _ = larder.ask("POST /a?b\nX-Tenant: 7"),
    ];
    for (at, way) in ways.into_iter().enumerate() {
        assert_eq!((hits_of_tenants(&larder), hits_of_tenants(&larder)), (0, 200), "{at}");
        let listed = larder.ask_admin(&format!("GET /cache?{url}"));
        assert_eq!(listed.text().lines().filter(|line| line.contains(r#""x-tenant":"7""#)).count(), 1);
        assert_eq!(listed.text().lines().count(), 200);
        way();
    }
    assert_eq!(hits_of_tenants(&larder), 0);
}

#[test]
fn tenants_of_a_url_may_have_variants_each() {
    let origin = Origin::by(|seen| {
        let shown = ["x-tenant", "accept-language"].map(|name| seen.field(name).unwrap_or("-"));
        format!("200 OK\nVary: Accept-Language\nCache-Control: max-age=100\n\n{}", shown.join("|"))
    });
    let larder = with_rules(&origin, "[[site.rule]]\nkey_fields = 'X-Tenant'\n");
    for is_hit in [false, true] {
        for (tenant, language) in [("1", "de"), ("1", "en"), ("2", "de"), ("2", "en")] {
            let answer = larder.ask(&format!("GET /\nX-Tenant: {tenant}\nAccept-Language: {language}"));
            assert_eq!(
                (answer.text(), answer.is_hit()),
                (&*format!("{tenant}|{language}"), is_hit),
                "{tenant} {language}"
            );
        }
    }
}

#[test]
fn clients_are_distinguished_by_classes() {
    let origin = Origin::by(|seen| {
        format!("{ECHO}{} {}", seen.field("x-device").unwrap_or("-"), seen.field("x-net").unwrap_or("-"))
    });
    let rule = "[[site.rule]]\nmatch = { path = '/a*' }\nclasses = [\n\
                { field = 'X-Device', of = 'User-Agent', values = { tablet = '*iPad*', phone = '*Mobile*' }, else = 'desktop' },\n\
                { field = 'X-Net', of = 'client', values = { here = '127.0.0.0/8' } }]\n";
    let larder = with_rules(&origin, rule);
    for (agent, is_hit, text) in [
        ("Mobile iPad", false, "tablet here"),
        ("Mobile", false, "phone here"),
        ("Mobile/2", true, "phone here"),
        ("curl\nX-Device: phone\nX-Net: there", false, "desktop here"),
        ("wget", true, "desktop here"),
    ] {
        let answer = larder.ask(&format!("GET /a\nUser-Agent: {agent}"));
        assert_eq!((answer.is_hit(), answer.text()), (is_hit, text), "{agent}");
    }
    assert_eq!(larder.get("/b").text(), "- -");
}

#[test]
fn key_rules_add_up_and_hold_for_all_requests_of_a_path() {
    let origin = Origin::by(|seen| {
        let shown = ["x-a", "cookie"].map(|name| seen.field(name).unwrap_or("-"));
        format!("{ECHO}{}", shown.join("|"))
    });
    let rules = "[[site.rule]]\nkey_fields = 'X-A'\nstop = true\n[[site.rule]]\nkey_cookies = 'c'\n";
    let larder = with_rules(&origin, rules);
    for (fields, content) in
        [("", "-|-"), ("\nX-A: 1", "1|-"), ("\nCookie: c=1", "-|c=1"), ("\nX-A: 1\nCookie: c=1", "1|c=1")]
    {
        for is_hit in [false, true] {
            let answer = larder.ask(&format!("GET /{fields}"));
            assert_eq!((answer.is_hit(), answer.text()), (is_hit, content), "{fields}");
        }
    }
}

#[test]
fn cookies_that_are_dropped_do_not_keep_a_response_from_being_shared() {
    let origin = Origin::by(|seen| {
        format!("200 OK\nVary: Cookie\nCache-Control: max-age=100\n\n{}", seen.field("cookie").unwrap_or("-"))
    });
    let larder = with_rules(
        &origin,
        "[[site.rule]]\nmatch = { extension = 'css' }\nrequest = { remove = 'Cookie' }\n",
    );
    assert_eq!(larder.ask("GET /a.css\nCookie: a=1").text(), "-");
    assert!(larder.ask("GET /a.css\nCookie: a=2").is_hit());
    assert_eq!(larder.ask("GET /a\nCookie: a=1").text(), "a=1");
    assert_eq!(larder.ask("GET /a\nCookie: a=2").text(), "a=2");
}

#[test]
fn each_credential_in_the_key_has_a_response_of_its_own() {
    let origin = Origin::by(|seen| {
        let user = seen.field("authorization").unwrap_or("nobody");
        format!("200 OK\nCache-Control: max-age=100\n\n{user}")
    });
    let rules = "[[site.rule]]\nmatch = { path = '/own/*' }\nkey_fields = 'Authorization'\n";
    let larder = with_rules(&origin, rules);
    for (path, is_hit) in [("/own/a", false), ("/own/a", true), ("/other", false), ("/other", false)] {
        for user in ["ann", "bob"] {
            let answer = larder.ask(&format!("GET {path}\nAuthorization: {user}"));
            assert_eq!((answer.text(), answer.is_hit()), (user, is_hit), "{path} {user}");
        }
    }
    assert_eq!(larder.get("/own/a").text(), "nobody");
}
