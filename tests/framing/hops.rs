//! RFC 9110 section 7.6: what a proxy takes out, adds, and answers itself.

use crate::support::{Larder, Origin};

#[test]
fn rfc_9110_section_7_6_1_fields_of_one_connection_stop_here() {
    let origin = Origin::always(
        "200 OK\nConnection: keep-alive, hop\nHop: h\nKeep-Alive: timeout=5\nProxy-Connection: x\nUpgrade: h2c\n\
         Proxy-Authenticate: Basic\nEnd: e",
    );
    let larder = Larder::before(&origin);
    let response = larder.ask(
        "GET /\nConnection: keep-alive, Hop\nHop: h\nKeep-Alive: 5\nProxy-Connection: x\nTE: gzip\n\
         Proxy-Authorization: Basic x\nEnd: e",
    );
    let seen = origin.last();
    for name in ["hop", "keep-alive", "proxy-connection", "te", "upgrade", "connection"] {
        assert_eq!((seen.field(name), response.field(name)), (None, None), "{name}");
    }
    assert_eq!((seen.field("proxy-authorization"), response.field("proxy-authenticate")), (None, None));
    assert_eq!((seen.field("end"), response.field("end")), (Some("e"), Some("e")));
}

#[test]
fn rfc_9110_section_7_6_3_via_grows_in_both_directions() {
    let origin = Origin::always("200 OK\nVia: 1.1 back\n\nbody");
    let larder = Larder::before(&origin);
    let response = larder.ask("GET /\nVia: 1.0 front");
    assert_eq!(origin.last().field("via"), Some("1.0 front, 1.1 Larder"));
    let via: Vec<_> = response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("via")).collect();
    assert_eq!(via.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>(), ["1.1 back", "1.1 Larder"]);
}

#[test]
fn a_request_that_goes_in_circles_is_stopped() {
    let origin = Origin::always("200 OK");
    let larder = Larder::before(&origin);
    let passes = ["1.1 Larder"; 8].join(", ");
    assert_eq!(larder.ask(&format!("GET /\nVia: {passes}")).status, 508);
    assert_eq!(origin.count(), 0);
}

#[test]
fn origins_learn_the_clients_address_as_configured() {
    let own = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded"];
    let table = [
        ("x-forwarded-for", [Some("127.0.0.1"), Some("http"), Some("site.test"), None]),
        ("forwarded", [None, None, None, Some("for=127.0.0.1;host=\"site.test\";proto=http")]),
        ("off", [None; 4]),
    ];
    for (option, expected) in table {
        let origin = Origin::always("200 OK");
        let larder = Larder::with(&origin, &format!("client_address = '{option}'"));
        larder.ask("GET /\nX-Forwarded-For: 1.2.3.4\nForwarded: for=1.2.3.4");
        let seen = origin.last();
        assert_eq!(own.map(|name| seen.field(name)), expected, "{option}");
    }
}

#[test]
fn origins_see_the_host_as_configured() {
    let origin = Origin::always("200 OK");
    let own = origin.address.to_string();
    for (option, expected) in [("preserve", "site.test"), ("origin", &own), ("set.test", "set.test")] {
        let larder = Larder::with_site(&[&origin], &format!("host = '{option}'"));
        larder.ask("GET /");
        assert_eq!(origin.last().field("host"), Some(expected), "{option}");
    }
}

#[test]
fn rfc_9110_section_7_6_2_max_forwards_counts_down_for_options_and_trace() {
    let origin = Origin::always("200 OK\n\norigin");
    let larder = Larder::before(&origin);
    for method in ["OPTIONS", "TRACE"] {
        assert_eq!(larder.ask(&format!("{method} /\nMax-Forwards: 3")).text(), "origin");
        assert_eq!(origin.last().field("max-forwards"), Some("2"), "{method}");
    }
    let before = origin.count();
    let options = larder.ask("OPTIONS /\nMax-Forwards: 0");
    assert_eq!((options.status, options.field("allow").is_some()), (204, true));
    assert_eq!(larder.ask("OPTIONS *").status, 204);
    assert_eq!(origin.count(), before);
    // It means nothing elsewhere.
    assert_eq!(larder.ask("GET /\nMax-Forwards: 0").text(), "origin");
}

#[test]
fn rfc_9110_section_9_3_8_trace_shows_the_request_without_secrets() {
    let origin = Origin::always("200 OK");
    let larder = Larder::before(&origin);
    let trace = larder.ask("TRACE /a\nMax-Forwards: 0\nA: b\nCookie: secret\nAuthorization: secret");
    assert_eq!((trace.status, trace.field("content-type")), (200, Some("message/http")));
    assert!(trace.text().starts_with("TRACE ") && trace.text().contains("a: b\r\n"));
    assert!(!trace.text().contains("secret"));
    assert_eq!(origin.count(), 0);
}
