//! `split`: clients in buckets; and origins by the fields and cookies by which responses are stored apart.

use std::collections::BTreeMap;

use larder_testkit::{Larder, Origin, Response};

use crate::with_rules;

/// An origin that shows its name and the bucket, with a lifetime and `Vary: Cookie`.
fn echo(name: &'static str) -> Origin {
    Origin::by(move |seen| {
        let bucket = seen.field("x-bucket").unwrap_or("-");
        format!("200 OK\nCache-Control: max-age=60\nVary: Cookie\n\n{name} {bucket}")
    })
}

/// Starts a proxy with two buckets, of which one has an origin of its own.
fn divided(stable: &Origin, canary: &Origin) -> Larder {
    let rules = format!(
        "[[site.rule]]\nsplit = {{ field = 'X-Bucket', values = {{ stable = 3, canary = 1 }}, cookie = 'bucket' }}\n\
         [[site.rule]]\nmatch = {{ field = {{ X-Bucket = 'canary' }} }}\norigin = '{}'",
        canary.url()
    );
    Larder::start(&format!("trust = '127.0.0.1'\n{}", larder_testkit::site(&[stable], &rules)))
}

fn cookie(answer: &Response) -> Option<&str> {
    answer.field("set-cookie")?.split(';').next()
}

#[test]
fn new_clients_are_drawn_by_weight_and_keep_their_bucket() {
    let (stable, canary) = (echo("one"), echo("two"));
    let larder = divided(&stable, &canary);
    let mut found = BTreeMap::new();
    for number in 0..100 {
        let ask = || larder.client().ask(&format!("GET /\nX-Forwarded-For: 192.0.2.{number}"));
        let [first, second] = [ask(), ask()];
        let own = cookie(&first).expect("a cookie").to_owned();
        assert_eq!((first.text(), cookie(&second)), (second.text(), Some(&*own)), "also with a hit");
        let expected = if own == "bucket=canary" { "two canary" } else { "one stable" };
        assert_eq!(first.text(), expected);
        *found.entry(own).or_insert(0) += 1;
    }
    assert!((10..40).contains(&found["bucket=canary"]), "{found:?}");
    assert_eq!((stable.count(), canary.count()), (1, 1), "each bucket has one stored response");
}

#[test]
fn the_cookie_decides_about_bucket_and_origin_whatever_field_a_client_sends() {
    let (stable, canary) = (echo("one"), echo("two"));
    let larder = divided(&stable, &canary);
    for (bucket, text) in [("stable", "one stable"), ("canary", "two canary")] {
        for claimed in ["stable", "canary"] {
            let answer = larder.ask(&format!("GET /\nCookie: bucket={bucket}\nX-Bucket: {claimed}"));
            assert_eq!((answer.text(), answer.field("set-cookie")), (text, None));
        }
    }
    assert_eq!(stable.last().field("cookie"), None, "origins do not see the cookie");
    let answer = larder.ask("GET /\nCookie: bucket=stable");
    assert_eq!((answer.is_hit(), answer.field("vary")), (true, Some("Cookie")));
}

#[test]
fn fields_and_cookies_that_separate_responses_choose_the_origin() {
    let (site, beta, second) = (echo("site"), echo("beta"), echo("second"));
    let rules = format!(
        "[[site.rule]]\nkey_cookies = 'beta'\nkey_fields = 'X-Api-Version'\n\
         [[site.rule]]\nmatch = {{ cookie = {{ beta = '1' }} }}\norigin = '{}'\n\
         [[site.rule]]\nmatch = {{ path = '/api/*', field = {{ X-Api-Version = '2' }} }}\norigin = '{}'",
        beta.url(),
        second.url()
    );
    let larder = with_rules(&site, &rules);
    for (request, text) in [
        ("GET /a", "site -"),
        ("GET /a\nCookie: beta=0", "site -"),
        ("GET /a\nCookie: beta=1", "beta -"),
        ("GET /api/a\nX-Api-Version: 2", "second -"),
        ("GET /api/a\nX-Api-Version: 1", "site -"),
        ("GET /a\nX-Api-Version: 2", "site -"),
    ] {
        for _ in 0..2 {
            assert_eq!(larder.ask(request).text(), text, "{request}");
        }
        assert!(larder.ask(request).is_hit(), "{request}");
    }
}
