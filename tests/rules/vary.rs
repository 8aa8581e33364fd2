//! `Vary` of replies to requests for which rules store responses apart.

use crate::with_rules;
use larder_testkit::{Larder, Line, Origin, http2};

const RULES: &str = r#"
[[site.rule]]
match = { path = "/stopped", cookie = "stop" }
stop = true

[[site.rule]]
match = { path = ["/fields", "/any", "/more"] }
key_fields = ["X-A", "Accept-Language"]

[[site.rule]]
match = { path = ["/cookies", "/off", "/more", "/stopped"] }
key_cookies = ["a", "b"]

[[site.rule]]
match = { path = "/off" }
vary = false

[[site.rule]]
match = { path = "/own" }
key_cookies = ["a"]
reply = { set = { Vary = "X-Own" }, add = { X-More = "1" } }

[[site.rule]]
match = { path = "/class" }
classes = { field = "X-Device", of = "User-Agent", values = { phone = "*Mobile*" }, else = "desktop" }

[[site.rule]]
match = { path = "/client" }
classes = { field = "X-Net", of = "client", values = { here = "127.0.0.0/8" } }

[[site.rule]]
match = { path = "/set", not = { cookie = "old" } }
request = { set = { X-Kind = "new" } }

[[site.rule]]
match = { path = "/set" }
key_fields = ["X-Kind"]
reply = { set = { X-More = "1" } }

[[site.rule]]
match = { path = "/pass" }
key_cookies = ["a"]
cache = false
"#;

fn proxy() -> (Origin, Larder) {
    let origin = Origin::by(|seen| {
        let own = match seen.target.as_str() {
            "/any" => "Vary: *\n",
            "/more" => "Vary: X-B, cookie\nVary: x-a\n",
            _ => "",
        };
        format!("200 OK\nCache-Control: max-age=100\nETag: \"1\"\n{own}\nx")
    });
    let larder = with_rules(&origin, RULES);
    (origin, larder)
}

/// Returns the values of the lines with `Vary`.
fn vary(fields: &[Line]) -> Vec<&str> {
    let lines = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("vary"));
    lines.map(|(_, value)| value.as_str()).collect()
}

#[test]
fn every_reply_names_the_fields_that_keep_responses_apart() {
    let (_origin, larder) = proxy();
    let mut http2 = http2::Client::new(&larder);
    for (stream, (path, expected)) in (1..).step_by(2).zip([
        ("/fields", &["Accept-Language, X-A"][..]),
        ("/cookies", &["Cookie"]),
        ("/class", &["User-Agent"]),
        ("/client", &[]),
        ("/set", &["Cookie"]),
        ("/stopped", &["Cookie"]),
        ("/pass", &["Cookie"]),
        ("/more", &["X-B, cookie", "x-a", "Accept-Language"]),
        ("/any", &["*"]),
        ("/own", &["X-Own"]),
        ("/off", &[]),
        ("/other", &[]),
    ]) {
        let is_stored = !matches!(path, "/pass" | "/any");
        for (request, status, is_hit) in [
            (format!("GET {path}"), 200, false),
            (format!("GET {path}"), 200, is_stored),
            (format!("HEAD {path}"), 200, is_stored),
            (format!("GET {path}\nIf-None-Match: \"1\""), 304, is_stored),
            (format!("GET {path}\nRange: bytes=0-0"), 206, is_stored),
        ]
        .into_iter()
        .filter(|(_, status, _)| is_stored || *status == 200)
        {
            let answer = larder.ask(&request);
            assert_eq!((answer.status, answer.is_hit()), (status, is_hit), "{request}");
            assert_eq!(vary(&answer.fields), expected, "{request}");
        }
        assert_eq!(vary(&http2.get(stream, path).fields), expected, "{path}");
    }
}

#[test]
fn a_reply_behind_a_stop_names_what_stores_it_apart() {
    let (_origin, larder) = proxy();
    for is_hit in [false, true] {
        let answer = larder.ask("GET /stopped\nCookie: stop=1; a=2");
        assert_eq!((answer.is_hit(), vary(&answer.fields)), (is_hit, vec!["Cookie"]));
    }
}

#[test]
fn a_second_cache_in_front_mixes_no_classes_and_no_cookies() {
    let origin = Origin::by(|seen| {
        let shown = ["x-device", "cookie"].map(|name| seen.field(name).unwrap_or("-"));
        format!("200 OK\nCache-Control: max-age=100\n\n{}", shown.join(" "))
    });
    let back = with_rules(&origin, &RULES.replace("\"/stopped\"]", "\"/class\"]"));
    let front = Larder::start(&format!("[[site]]\norigin = 'http://{}'\nhost = 'origin'\n", back.address()));
    for (fields, is_hit, content) in [
        ("User-Agent: Mobile", false, "phone -"),
        ("User-Agent: curl", false, "desktop -"),
        ("User-Agent: Mobile\nCookie: a=1", false, "phone a=1"),
        ("User-Agent: Mobile", true, "phone -"),
        ("User-Agent: Mobile\nCookie: a=1", true, "phone a=1"),
    ] {
        let answer = front.ask(&format!("GET /class\n{fields}"));
        let own = answer.fields.iter().rfind(|(name, _)| name.eq_ignore_ascii_case("cache-status"));
        let own = own.map(|(_, value)| value.starts_with("Larder; hit"));
        assert_eq!((own, answer.text()), (Some(is_hit), content), "{fields}");
    }
}
