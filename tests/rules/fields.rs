//! Rules for the fields of requests, stored responses and replies.

use crate::with_rules;
use larder_testkit::{Answer, Origin, file_with};

#[test]
fn field_rules_apply_to_origin_requests_stored_responses_and_replies() {
    let origin = Origin::by(|seen| {
        let key = seen.field("x-key").unwrap_or("-");
        format!("200 OK\nCache-Control: max-age=100\nServer: secret\nX-Powered-By: x\n\n{key}")
    });
    let rules = "[[site.rule]]\n\
                 request = { set = { X-Key = 'a b' }, remove = ['Accept-Lang*'] }\n\
                 response = { remove = ['Server'], add = { X-Stored = 'yes' } }\n\
                 reply = { set = { X-Frame-Options = 'DENY' }, remove = ['x-powered-*'] }\n";
    let larder = with_rules(&origin, rules);
    for is_hit in [false, true] {
        let answer = larder.ask("GET /\nX-Key: forged\nAccept-Language: de");
        assert_eq!((answer.is_hit(), answer.text()), (is_hit, "a b"));
        let fields = ["server", "x-stored", "x-frame-options", "x-powered-by"].map(|name| answer.field(name));
        assert_eq!(fields, [None, Some("yes"), Some("DENY"), None]);
    }
    assert_eq!(origin.last().field("accept-language"), None);
    let unchanged = larder.ask("GET /\nIf-None-Match: \"x\"");
    assert_eq!(unchanged.field("x-frame-options"), Some("DENY"));
}

#[test]
fn interim_responses_lose_the_fields_that_rules_remove_or_set() {
    let origin = Origin::answering(|_| {
        let hints = "Link: </a>\r\nServer: x\r\nX-Internal-Id: 1\r\nX-Own: origin\r\nSet-Cookie: track=1\r\n";
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        Answer::raw(format!("HTTP/1.1 103 Early Hints\r\n{hints}\r\n{head}"))
    });
    let rules = "[[site.rule]]\nresponse = { remove = ['X-Internal-*'], set = { X-Own = 'rule' } }\n\
                 reply = { remove = ['Server'], cookies = 'drop' }\n";
    let larder = with_rules(&origin, rules);
    let mut client = larder.client();
    client.send("GET /");
    assert_eq!(client.head().fields, [("Link".to_owned(), "</a>".to_owned())]);
    assert_eq!(client.receive("GET").field("x-own"), Some("rule"));
}

#[test]
fn values_of_fields_are_in_files_or_begin_with_an_at_sign() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("key");
    std::fs::write(&file, "secret\n").expect("a file");
    let origin = Origin::always("200 OK\n\nx");
    let set = format!("{{ X-Key = '@{}', X-Handle = '@@larder' }}", file.display());
    let larder = with_rules(&origin, &format!("[[site.rule]]\nrequest = {{ set = {set} }}\n"));
    larder.get("/");
    let sent = origin.last();
    assert_eq!((sent.field("x-key"), sent.field("x-handle")), (Some("secret"), Some("@larder")));
}

#[test]
fn cookies_are_kept_by_name_in_both_directions() {
    let origin = Origin::by(|seen| {
        format!(
            "200 OK\nSet-Cookie: a=111; Path=/\nSet-Cookie: track=222\n\n{}",
            seen.field("cookie").unwrap_or("-")
        )
    });
    let rules = "[[site.rule]]\nrequest = { cookies = { drop = ['track*'] } }\nreply = { cookies = { keep = ['a'] } }\n";
    let larder = with_rules(&origin, rules);
    let answer = larder.ask("GET /\nCookie: track1=1; a=2\nCookie: tracking=3; b=4");
    assert_eq!(answer.text(), "a=2; b=4");
    assert_eq!(answer.field("set-cookie"), Some("a=111; Path=/"));
}

#[test]
fn a_later_set_rule_replaces_fields_that_earlier_rules_add() {
    let origin = Origin::by(|seen| {
        let of = |name: &str| {
            let lines = seen.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
            lines.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(",")
        };
        format!("200 OK\n\n{}|{}", of("x-a"), of("x-b"))
    });
    let rules = "[[site.rule]]\nrequest = { add = { X-A = '1', X-B = '1' } }\nreply = { add = { X-R = '1' } }\n\
                 [[site.rule]]\nrequest = { set = { X-A = '2' }, default = { X-B = '2' } }\nreply = { set = { X-R = '2' } }\n";
    let larder = with_rules(&origin, rules);
    let answer = larder.ask("GET /\nX-A: 0");
    assert_eq!((answer.text(), answer.field("x-r")), ("2|1", Some("2")));
}

#[test]
fn credentials_that_a_rule_has_checked_count_for_rules_on_the_response() {
    let (_folder, tokens) = file_with("tokens", "0123456789abcdef\n");
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    let rules = format!(
        "[[site.rule]]\ntokens = '{}'\n\
         [[site.rule]]\nmatch = {{ path = '/own/*', field = 'Authorization', status = 200 }}\ncache = false\n",
        tokens.display()
    );
    let larder = with_rules(&origin, &rules);
    for (path, is_hit) in [("/own/a", false), ("/a", true)] {
        let ask = || larder.ask(&format!("GET {path}\nAuthorization: Bearer 0123456789abcdef"));
        ask();
        assert_eq!(ask().is_hit(), is_hit, "{path}");
    }
    assert_eq!(origin.last().field("authorization"), None);
}

#[test]
fn trace_in_any_case_loses_fields_but_gets_no_secret() {
    let origin = Origin::by(|seen| format!("200 OK\n\n{:?}", seen.fields));
    let rules = "[[site.rule]]\n\
                 request = { set = { X-Role = 'secret' }, add = { X-Key = 'secret' }, default = { X-D = 'secret' }, \
                 remove = ['X-Old'] }\n";
    let larder = with_rules(&origin, rules);
    for method in ["TRACE", "trace", "Trace"] {
        let seen = larder.ask(&format!("{method} /\nX-Role: forged\nX-Old: forged\nX-Other: stays"));
        let text = seen.text();
        assert!(text.contains("stays") && !text.contains("forged") && !text.contains("secret"), "{text}");
    }
    assert!(larder.ask("GET /\nX-Role: forged").text().contains("secret"));
}

#[test]
fn responses_to_the_credential_of_the_proxy_are_shared_by_clients() {
    let shown = |seen: &larder_testkit::Seen| seen.field("authorization").unwrap_or("-").to_owned();
    let origin = Origin::by(move |seen| format!("200 OK\nCache-Control: max-age=100\n\n{}", shown(seen)));
    let rules =
        "[[site.rule]]\nmatch = { path = '/own/*' }\nrequest = { set = { Authorization = 'Basic own' } }\n";
    let larder = with_rules(&origin, rules);
    assert_eq!(larder.get("/own/a").text(), "Basic own");
    let other = larder.ask("GET /own/a\nAuthorization: Basic client");
    assert_eq!((other.text(), other.is_hit()), ("Basic own", true));
    // A client's own credential keeps its rules (RFC 9111 section 3.5), and no client sees that of the proxy.
    for _ in 0..2 {
        let own = larder.ask("GET /a\nAuthorization: Basic client");
        assert_eq!((own.text(), own.is_hit()), ("Basic client", false));
    }
    assert_eq!(larder.ask("TRACE /own/a").text(), "-");
}

#[test]
fn credentials_by_client_are_not_those_of_the_proxy() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    for (rule, cookie) in [
        (
            "[[site.rule]]\nmatch = { cookie = 'admin' }\nrequest = { set = { Authorization = 'Basic admin' } }\n",
            "admin=1",
        ),
        (
            "[[site.rule]]\nmatch = { cookie = 'admin' }\nstop = true\n\
             [[site.rule]]\nrequest = { set = { Authorization = 'Basic guest' } }\n",
            "a=1",
        ),
        ("[[site.rule]]\nrequest = { default = { Authorization = 'Basic guest' } }\n", "a=1"),
    ] {
        let larder = with_rules(&origin, rule);
        let ask = || larder.ask(&format!("GET /\nCookie: {cookie}")).is_hit();
        assert_eq!([ask(), ask()], [false, false], "{rule}");
    }
}

#[test]
fn rules_remove_and_replace_what_the_proxy_writes_about_itself() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\n");
    let rules = "[[site.rule]]\nreply = { remove = ['Via', 'Cache-Status'], set = { Age = '7' } }\n";
    let larder = with_rules(&origin, rules);
    for _ in 0..2 {
        let answer = larder.ask("GET /");
        let of = |name: &str| answer.fields.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name)).count();
        assert_eq!(([of("via"), of("cache-status"), of("age")], answer.field("age")), ([0, 0, 1], Some("7")));
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn forwarding_fields_that_rules_set_replace_those_of_the_proxy() {
    let origin = Origin::by(|seen| {
        let of = |name: &str| {
            let lines = seen.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
            lines.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(",")
        };
        format!("200 OK\n\n{}|{}", of("x-forwarded-proto"), of("x-forwarded-for"))
    });
    let larder = with_rules(&origin, "[[site.rule]]\nrequest = { set = { X-Forwarded-Proto = 'https' } }\n");
    assert_eq!(larder.ask("GET /\nX-Forwarded-Proto: gopher").text(), "https|127.0.0.1");
}

#[test]
fn cookies_of_replies_get_the_attributes_that_they_lack() {
    let origin = Origin::always(
        "200 OK\nCache-Control: max-age=9\nSet-Cookie: a=1\nSet-Cookie: b=2; secure; SameSite=None; Path=/\n\nx",
    );
    let rules = "[[site.rule]]\nreply = { cookies = { drop = ['c'], flags = ['Secure', 'samesite=lax'] } }\n";
    let larder = with_rules(&origin, rules);
    for _ in 0..2 {
        let answer = larder.get("/");
        let is_cookie = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("set-cookie");
        let cookies: Vec<_> =
            answer.fields.iter().filter(is_cookie).map(|(_, value)| value.as_str()).collect();
        assert_eq!(cookies, ["a=1; Secure; SameSite=Lax", "b=2; secure; SameSite=None; Path=/"]);
    }
}
