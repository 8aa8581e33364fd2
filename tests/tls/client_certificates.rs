//! Client certificates: the clients that are accepted, and the certificates in requests to origins, in caches and in
//! logs.

use std::fs;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use larder_testkit::{Larder, Origin, Pair, eventually};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::clients::{Said, curl, s_client};
use super::{Authority, LISTEN, TLS};

const GET: &str = "GET /page HTTP/1.0\r\nHost: site.test\r\n\r\n";
const FORGED: [&str; 8] = [
    "-H",
    "Client-Cert: :Zm9yZ2Vk:",
    "-H",
    "client_cert: :Zm9yZ2Vk:",
    "-H",
    "Client-Cert-Chain: :Zm9yZ2Vk:",
    "-H",
    "Client_Cert-Chain: :Zm9yZ2Vk:",
];

/// Returns a config with `keys` for the listeners, before `origin`.
fn config(authority: &Authority, origin: &Origin, keys: &str, top: &str) -> String {
    let pair = authority.pair("site", &["site.test", "localhost"]);
    format!("{top}{LISTEN}{keys}\n{}{}", pair.table(), larder_testkit::site(&[origin], ""))
}

fn asking(authority: &Authority, rule: &str) -> String {
    format!("client_ca = '{}'\nclient_auth = '{rule}'", authority.file())
}

/// Starts an origin whose responses contain the certificate in the request.
fn teller(cache: &'static str) -> Origin {
    Origin::by(move |seen| {
        let lines = seen
            .fields
            .iter()
            .filter(|(name, _)| name.to_lowercase().replace('_', "-").starts_with("client-cert"));
        let lines: Vec<_> = lines.map(|(name, value)| format!("{}={value}", name.to_lowercase())).collect();
        format!("200 OK\n{cache}\n\n[{}]", lines.join(","))
    })
}

/// Returns the field about the client with `pair` that an origin gets.
fn told_of(pair: &Pair) -> String {
    let file = fs::read_to_string(&pair.cert).expect("a certificate");
    let leaf = CertificateDer::from_pem_slice(file.as_bytes()).expect("a certificate");
    format!("[client-cert=:{}:]", STANDARD.encode(&leaf))
}

/// Requests `path` with curl and the certificate of `pair`.
fn ask(larder: &Larder, authority: &Authority, pair: Option<&Pair>, path: &str, words: &[&str]) -> Said {
    let mut all: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    if let Some(pair) = pair {
        let [cert, key] = [&pair.cert, &pair.key].map(|file| file.display().to_string());
        all.extend(["--cert".to_owned(), cert, "--key".to_owned(), key]);
    }
    let words: Vec<_> = all.iter().map(String::as_str).collect();
    curl(authority, larder.door(TLS), "site.test", path, &words)
}

fn refused(larder: &Larder) -> u64 {
    larder.stats()["tls"]["handshakes"]["client-certificate"].as_u64().expect("a number")
}

#[test]
fn only_clients_with_a_trusted_certificate_enter_and_origins_learn_of_it() {
    let (authority, stranger, origin) =
        (Authority::new(), Authority::new(), teller("Cache-Control: no-store"));
    let alice = authority.pair("alice", &[]);
    let larder = Larder::start(&config(&authority, &origin, &asking(&authority, "require"), ""));
    for version in ["--http1.1", "--http2"] {
        for words in [&[version][..], &[&[version][..], &FORGED].concat()] {
            let said = ask(&larder, &authority, Some(&alice), "/page", words);
            assert!(said.text().ends_with(&told_of(&alice)), "{}{}", said.text(), said.err);
        }
    }
    let count = origin.count();
    let expired = authority.expired("expired");
    let other = stranger.pair("alice", &[]);
    for (at, pair) in [None, Some(&other), Some(&expired)].into_iter().enumerate() {
        for words in [&["--tlsv1.3"][..], &["--tls-max", "1.2"]] {
            let said = ask(&larder, &authority, pair, "/page", words);
            assert!(
                !said.ok && (said.has("alert") || said.has("certificate")),
                "{at} {words:?}: {}{}",
                said.text(),
                said.err
            );
        }
        let counted = 2 * (at as u64 + 1);
        eventually("the failures in numbers", || (refused(&larder) == counted).then_some(()));
    }
    assert_eq!(origin.count(), count);
}

#[test]
fn an_optional_client_certificate_that_does_not_verify_is_refused() {
    let (authority, stranger, origin) =
        (Authority::new(), Authority::new(), teller("Cache-Control: no-store"));
    let alice = authority.pair("alice", &[]);
    let larder = Larder::start(&config(&authority, &origin, &asking(&authority, "request"), ""));
    for version in ["--http1.1", "--http2"] {
        let words = [&[version][..], &FORGED].concat();
        let said = ask(&larder, &authority, None, "/page", &words);
        assert!(said.text().ends_with("[]"), "{}{}", said.text(), said.err);
        let said = ask(&larder, &authority, Some(&alice), "/page", &words);
        assert!(said.text().ends_with(&told_of(&alice)), "{}{}", said.text(), said.err);
    }
    let said = ask(&larder, &authority, Some(&stranger.pair("mallory", &[])), "/page", &[]);
    assert!(!said.ok, "{}", said.text());
    eventually("the failure in numbers", || (refused(&larder) == 1).then_some(()));
}

#[test]
fn no_client_can_write_the_field_on_any_listener() {
    let (authority, origin) = (Authority::new(), teller("Cache-Control: no-store"));
    let larder = Larder::start(&config(&authority, &origin, "", ""));
    let forged = "Client-Cert: :Zm9yZ2Vk:\nClient_Cert: x\nCLIENT-CERT-CHAIN: x\nClient-Cert_Chain: x";
    assert_eq!(larder.get(&format!("/page\nHost: site.test\n{forged}")).text(), "[]");
    for version in ["--http1.1", "--http2"] {
        let words = [&[version][..], &FORGED].concat();
        let said = ask(&larder, &authority, None, "/page", &words);
        assert!(said.text().ends_with("[]"), "{}{}", said.text(), said.err);
    }
    let mut client = larder.client();
    let trailers = forged.replace('\n', "\r\n");
    client.raw(
        format!(
            "POST /page HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n{trailers}\r\n\
             Content-Digest: 1\r\n\r\n"
        )
        .as_bytes(),
    );
    assert_eq!(client.receive("POST").text(), "[]");
    let trailers = format!("{:?}", origin.last().trailers).to_lowercase();
    assert!(trailers.contains("content-digest") && !trailers.contains("client"), "{trailers}");
}

#[test]
fn a_response_for_one_certificate_is_served_to_no_other_client() {
    let (authority, origin) = (Authority::new(), teller("Cache-Control: max-age=60\nVary: Client-Cert"));
    let (alice, bob) = (authority.pair("alice", &[]), authority.pair("bob", &[]));
    let larder = Larder::start(&config(&authority, &origin, &asking(&authority, "request"), ""));
    let told = told_of(&alice);
    // The field that a client without a certificate would send to impersonate another client.
    let forged = format!("Client-Cert: {}", told.trim_matches(['[', ']']).trim_start_matches("client-cert="));
    let clients = [
        (Some(&alice), told.clone(), &[][..]),
        (Some(&bob), told_of(&bob), &[]),
        (None, "[]".to_owned(), &["-H", &*forged]),
    ];
    for is_hit in [false, true] {
        for (pair, expected, words) in &clients {
            for version in ["--http1.1", "--http2"] {
                let words = [&[version][..], words].concat();
                let said = ask(&larder, &authority, *pair, "/page", &words);
                assert!(said.text().ends_with(expected), "{words:?}: {}{}", said.text(), said.err);
                assert!(
                    said.text().to_lowercase().contains("vary: *"),
                    "for caches of clients: {}",
                    said.text()
                );
                assert!(said.has("; hit") || !is_hit, "{}", said.text());
                larder.settle();
            }
        }
    }
    assert_eq!(origin.count(), 3);
}

#[test]
fn a_path_is_open_to_clients_with_the_named_certificate() {
    let (authority, origin) = (Authority::new(), teller("Cache-Control: max-age=60"));
    let (alice, bob) = (authority.pair("alice", &[]), authority.pair("bob", &["bob.test"]));
    let rules = "[[site.rule]]\nmatch = { path = '/intern', client_cert = false }\nrespond = 403\n\
                 [[site.rule]]\nmatch = { path = '/named', not = { client_cert = ['CN=ali*', 'bob.test'] } }\nrespond = 403\n\
                 [[site.rule]]\nmatch = { path = '/alice', not = { client_cert = 'CN=alice' } }\nrespond = 403\n";
    let config = config(&authority, &origin, &asking(&authority, "request"), "") + rules;
    let larder = Larder::start(&config);
    for (pair, path, is_open) in [
        (None, "/", true),
        (None, "/intern", false),
        (Some(&bob), "/intern", true),
        (None, "/intern", false),
        (Some(&alice), "/named", true),
        (Some(&bob), "/named", true),
        (None, "/named", false),
        (Some(&alice), "/alice", true),
        (Some(&bob), "/alice", false),
    ] {
        for version in ["--http1.1", "--http2"] {
            let said = ask(&larder, &authority, pair, path, &[version]);
            // The status line alone: the base64 of a certificate may contain 403.
            let status = said.text().split(' ').nth(1).map(str::to_owned);
            let expected = if is_open { "200" } else { "403" };
            assert_eq!(status.as_deref(), Some(expected), "{path} {version}: {}{}", said.text(), said.err);
        }
    }
    assert_eq!(larder.get("/intern\nHost: site.test").status, 403, "without TLS");
}

#[test]
fn no_lifetime_is_guessed_for_a_client_with_a_certificate() {
    let (authority, origin) = (Authority::new(), teller("Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT"));
    let alice = authority.pair("alice", &[]);
    let larder = Larder::start(&config(&authority, &origin, &asking(&authority, "request"), ""));
    for (pair, path, count) in [(Some(&alice), "/one", 2), (None, "/other", 1)] {
        for _ in 0..2 {
            assert!(ask(&larder, &authority, pair, path, &[]).ok);
            larder.settle();
        }
        assert_eq!(origin.count_of(path), count, "{path}");
    }
}

/// Runs `s_client` with the certificate of `pair`.
fn resume(larder: &Larder, authority: &Authority, pair: Option<&Pair>, words: &[&str]) -> Said {
    let mut all: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    if let Some(pair) = pair {
        let [cert, key] = [&pair.cert, &pair.key].map(|file| file.display().to_string());
        all.extend(["-cert".to_owned(), cert, "-key".to_owned(), key]);
    }
    let words: Vec<_> = all.iter().map(String::as_str).collect();
    s_client(authority, larder.door(TLS), &words, GET)
}

#[test]
fn sessions_with_certificates_are_not_resumed() {
    let (authority, origin) = (Authority::new(), teller("Cache-Control: no-store"));
    let (alice, folder) = (authority.pair("alice", &[]), tempfile::tempdir().expect("a folder"));
    let larder = Larder::start(&config(&authority, &origin, &asking(&authority, "request"), ""));
    for version in ["-tls1_2", "-tls1_3"] {
        let file = folder.path().join(version).display().to_string();
        for words in [&[version, "-sess_out", &*file][..], &[version]] {
            let said = resume(&larder, &authority, Some(&alice), words);
            assert!(said.has("New, TLSv1.") && said.has(&told_of(&alice)), "{}{}", said.text(), said.err);
            assert!(!said.has("New Session Ticket") && !said.has("TLS session ticket:"), "{}", said.text());
        }
    }
}

#[test]
fn a_listener_that_a_reload_leaves_out_still_requires_certificates() {
    let (authority, origin) = (Authority::new(), teller("Cache-Control: no-store"));
    let alice = authority.pair("alice", &[]);
    let larder = Larder::start(&config(&authority, &origin, &asking(&authority, "require"), ""));
    let said = ask(&larder, &authority, Some(&alice), "/page", &[]);
    assert!(said.ok, "{}", said.err);
    larder.reload(&format!("[reverse]\nlisten = '127.0.0.1:0'\n{}", larder_testkit::site(&[&origin], "")));
    larder.wait_for_log("until a restart");
    assert!(!ask(&larder, &authority, None, "/page", &[]).ok);
    assert!(ask(&larder, &authority, Some(&alice), "/page", &[]).ok);
}

#[test]
fn a_session_without_a_certificate_is_not_resumed_where_one_is_required() {
    let (authority, origin) = (Authority::new(), teller("Cache-Control: no-store"));
    let folder = tempfile::tempdir().expect("a folder");
    let larder = Larder::start(&config(&authority, &origin, "", ""));
    for step in ["none", "request"] {
        if step != "none" {
            larder.reload(&config(&authority, &origin, &asking(&authority, step), ""));
            let alice = authority.pair("alice", &[]);
            let told = || ask(&larder, &authority, Some(&alice), "/page", &[]).has("client-cert=");
            eventually("the authority", || told().then_some(()));
        }
        let file = folder.path().join(step).display().to_string();
        assert!(resume(&larder, &authority, None, &["-sess_out", &file]).has("[]"));
    }
    larder.reload(&config(&authority, &origin, &asking(&authority, "require"), ""));
    eventually("the rule", || (!ask(&larder, &authority, None, "/page", &[]).ok).then_some(()));
    for step in ["none", "request"] {
        let file = folder.path().join(step).display().to_string();
        let said = resume(&larder, &authority, None, &["-sess_in", &file]);
        assert!(!said.has("200 OK"), "{step}: {}{}", said.text(), said.err);
    }
}

#[test]
fn authorities_are_read_again_when_their_file_changes() {
    let (authority, other, origin) = (Authority::new(), Authority::new(), teller("Cache-Control: no-store"));
    let (alice, bob) = (authority.pair("alice", &[]), other.pair("bob", &[]));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("clients.pem");
    fs::copy(authority.file(), &file).expect("copied");
    let keys = format!("client_ca = '{}'", file.display());
    let larder = Larder::start(&config(&authority, &origin, &keys, ""));
    let may = |pair: &Pair| ask(&larder, &authority, Some(pair), "/page", &[]).ok;
    assert!(may(&alice) && !may(&bob));
    fs::write(&file, "nothing").expect("written");
    larder.wait_for_log("clients.pem: no certificate in it; it has to be PEM; the authorities that were read before stay in use");
    assert!(may(&alice) && !may(&bob));
    fs::copy(other.file(), &file).expect("copied");
    eventually("the other authority", || may(&bob).then_some(()));
    assert!(!may(&alice));
}

#[test]
fn an_error_in_the_client_authorities_is_reported_with_its_line() {
    let (authority, origin) = (Authority::new(), teller(""));
    let pair = authority.pair("site", &["site.test"]);
    let folder = tempfile::tempdir().expect("a folder");
    let (file, empty) = (folder.path().join("larder.toml"), folder.path().join("empty.pem"));
    fs::write(&empty, "").expect("written");
    let tls = "listen_tls = '127.0.0.1:0'";
    let ca = |path: &str| format!("client_ca = '{path}'");
    let table = [
        (tls, ca("/nonexistent.pem"), "larder.toml:3: reverse.client_ca: /nonexistent.pem: no such file"),
        (tls, ca("/"), "larder.toml:3: reverse.client_ca: /: it is a directory"),
        (tls, ca(&empty.display().to_string()), "empty.pem: no certificate in it; it has to be PEM"),
        (
            tls,
            "client_auth = 'require'".to_owned(),
            "larder.toml:3: reverse.client_auth needs the authorities",
        ),
        (tls, "client_auth = 'maybe'".to_owned(), "larder.toml:3: reverse.client_auth: "),
        ("listen_tls = []", ca(&authority.file()), "reverse.client_ca needs a listener for TLS"),
    ];
    let check = |listen: &str, keys: &str| {
        let site = larder_testkit::site(&[&origin], "");
        fs::write(&file, format!("[reverse]\n{listen}\n{keys}\n{}{site}", pair.table())).expect("written");
        let mut larder = Command::new(env!("CARGO_BIN_EXE_larder"));
        let output = larder.arg("check").arg("--config").arg(&file).output().expect("it runs");
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    };
    for (listen, keys, expected) in table {
        let (is_ok, told) = check(listen, &keys);
        assert!(!is_ok && told.contains(expected), "{told}");
    }
    let (is_ok, told) = check(tls, &ca(&authority.file()));
    assert!(is_ok && told.contains("reverse, TLS, certificates required, 1 authority"), "{told}");
    assert!(told.contains("serves clients without a certificate"), "{told}");
}

#[test]
fn logs_have_the_subject_in_one_line() {
    let (authority, origin) = (Authority::new(), teller("Cache-Control: max-age=60"));
    let alice = authority.pair("al \"ice", &[]);
    let folder = tempfile::tempdir().expect("a folder");
    for (form, expected) in [
        ("json", r#""client_subject":"CN=al \\\"ice""#),
        ("text", r#" client-cert="CN=al \\\"ice""#),
        ("combined", r#"127.0.0.1 - CN=al%20\"ice ["#),
        ("squid", r#" CN=al%20\"ice "#),
    ] {
        let file = folder.path().join(form);
        let top = format!("access_log = '{form}'\naccess_log_file = '{}'\n", file.display());
        let larder = Larder::start(&config(&authority, &origin, &asking(&authority, "request"), &top));
        for words in [&["--http1.1"][..], &["--http2"]] {
            assert!(ask(&larder, &authority, Some(&alice), "/page", words).ok);
            larder.settle();
        }
        assert!(ask(&larder, &authority, None, "/page", &[]).ok);
        let lines = eventually("three lines", || {
            let text = fs::read_to_string(&file).ok()?;
            (text.lines().count() == 3).then_some(text)
        });
        assert_eq!(lines.matches(expected).count(), 2, "{expected}: {lines}");
        assert_eq!(lines.matches("ice").count(), 2, "{lines}");
    }
}
