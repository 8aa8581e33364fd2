//! The choice of the certificate for a client, and changes of certificate files.

use std::fs;
use std::process::Command;

use larder_testkit::{Larder, Origin, eventually, file_with, site};

use super::clients::{curl, s_client};
use super::{Authority, LISTEN, TLS, config};

const PAGE: &str = "200 OK\nCache-Control: max-age=60\n\na page";

#[test]
fn a_client_gets_the_certificate_for_the_name_that_it_asks_for() {
    let (authority, origin) = (Authority::new(), Origin::always(PAGE));
    let tables: String = [
        authority.pair("first", &["first.test"]),
        authority.pair("second", &["second.test", "*.second.test"]),
        authority.ed25519("third", &["third.test"]),
        authority.pair("third-ecdsa", &["third.test"]),
    ]
    .iter()
    .map(larder_testkit::Pair::table)
    .collect();
    let larder = Larder::start(&format!("{LISTEN}{tables}{}", site(&[&origin], "")));
    for host in ["first.test", "second.test", "www.second.test", "third.test"] {
        let said = curl(&authority, larder.door(TLS), host, "/", &[]);
        assert!(said.ok, "{host}: {}", said.err);
    }
    let unknown = curl(&authority, larder.door(TLS), "unknown.test", "/", &[]);
    assert!(unknown.has("no alternative certificate subject name"), "{}", unknown.err);
    for (signatures, kind) in [("ed25519", "ED25519"), ("ECDSA+SHA256", "ECDSA")] {
        let words = ["-sigalgs", signatures, "-servername", "third.test"];
        let said =
            s_client(&authority, larder.door(TLS), &words, "GET / HTTP/1.0\r\nHost: third.test\r\n\r\n");
        assert!(said.text().to_uppercase().contains(&format!("SIGNATURE TYPE: {kind}")), "{}", said.text());
    }
}

#[test]
fn a_client_gets_the_certificate_whose_signatures_it_can_verify_ecdsa_first() {
    let (authority, origin) = (Authority::new(), Origin::always(PAGE));
    let (rsa, ecdsa) = (authority.rsa("rsa", &["site.test"]), authority.pair("ecdsa", &["site.test"]));
    let tables = format!("{}{}", rsa.table(), ecdsa.table());
    let larder = Larder::start(&format!("{LISTEN}{tables}{}", site(&[&origin], "")));
    for version in ["-tls1_2", "-tls1_3"] {
        for (signatures, kind) in [
            (&[][..], "ECDSA"),
            (&["-sigalgs", "RSA-PSS+SHA256:ECDSA+SHA256"], "ECDSA"),
            (&["-sigalgs", "RSA-PSS+SHA256:RSA+SHA256"], "RSA-PSS"),
        ] {
            let request = "GET / HTTP/1.0\r\nHost: site.test\r\n\r\n";
            let words = [&[version], signatures].concat();
            let said = s_client(&authority, larder.door(TLS), &words, request);
            let has_kind = said.text().contains(&format!("Peer signature type: {kind}\n"));
            assert!(has_kind && said.has("a page"), "{words:?}: {}{}", said.text(), said.err);
        }
    }
}

#[test]
fn new_files_are_used_without_a_word_and_bad_ones_are_refused() {
    let (authority, origin) = (Authority::new(), Origin::always(PAGE));
    let larder = Larder::start(&config(&authority, &origin, ""));
    let fetches = |host: &str| curl(&authority, larder.door(TLS), host, "/", &[]).ok;
    assert!(fetches("site.test") && !fetches("new.test"));
    let pair = authority.pair("site", &["site.test", "new.test"]);
    eventually("the new certificate", || fetches("new.test").then_some(()));
    fs::write(&pair.key, "no key").expect("written");
    larder.wait_for_log("the certificate that was read before stays in use");
    larder.wait_for_log("site.key: no private key in it; it has to be PEM");
    assert!(fetches("new.test"));
    authority.pair("site", &["site.test", "third.test"]);
    eventually("the repaired certificate", || fetches("third.test").then_some(()));
}

#[test]
fn a_byte_order_mark_before_pem_is_ignored() {
    let (authority, origin) = (Authority::new(), Origin::always(PAGE));
    let pair = authority.pair("site", &["site.test"]);
    for file in [&pair.cert, &pair.key] {
        let text = fs::read(file).expect("read");
        fs::write(file, [b"\xEF\xBB\xBF", &text[..]].concat()).expect("written");
    }
    let larder = Larder::start(&config(&authority, &origin, ""));
    assert!(curl(&authority, larder.door(TLS), "site.test", "/", &[]).ok);
}

#[test]
fn an_error_in_a_certificate_is_reported_with_its_line() {
    let (authority, origin) = (Authority::new(), Origin::always(PAGE));
    let (one, other) = (authority.pair("one", &["site.test"]), authority.pair("other", &["site.test"]));
    let folder = tempfile::tempdir().expect("a folder");
    let pair = |cert: &str, key: &str| format!("[[tls]]\ncert = '{cert}'\nkey = '{key}'\n");
    let [one_cert, one_key, other_key] =
        [&one.cert, &one.key, &other.key].map(|path| path.display().to_string());
    let short = |end: &str| folder.path().join(format!("short.{end}")).display().to_string();
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:1024", "-nodes", "-subj", "/CN=site.test"]);
    let made = openssl.args(["-keyout", &short("key"), "-out", &short("pem")]).output().expect("openssl");
    assert!(made.status.success(), "{made:?}");
    let table = [
        (pair(&one_cert, &other_key), 3, "is not the key of the certificate in"),
        (pair("/nonexistent.pem", &one_key), 2, "tls.cert: /nonexistent.pem: no such file"),
        (pair(&one_cert, "/nonexistent.key"), 3, "tls.key: /nonexistent.key: no such file"),
        (pair(&short("pem"), &short("key")), 2, "an RSA key of 1024 bits; TLS needs at least 2048"),
    ];
    for (tables, line, expected) in table {
        assert_refused(&format!("{tables}{}", site(&[&origin], "")), line, expected);
    }
}

#[test]
fn a_pem_file_of_the_wrong_kind_is_refused_with_the_remedy() {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().expect("a folder"));
    let one = authority.pair("one", &["site.test"]);
    let pair = |cert: &str, key: &str| format!("[[tls]]\ncert = '{cert}'\nkey = '{key}'\n");
    let [one_cert, one_key] = [&one.cert, &one.key].map(|path| path.display().to_string());
    // Runs openssl, and returns the file that it writes.
    let made = |name: &str, words: &[&str]| {
        let path = folder.path().join(name).display().to_string();
        let output = Command::new("openssl").args(words).args(["-out", &path]).output().expect("openssl");
        assert!(output.status.success(), "{output:?}");
        path
    };
    let public = made("public.key", &["pkey", "-pubout", "-in", &one_key]);
    let cut = folder.path().join("cut.pem").display().to_string();
    fs::write(&cut, &fs::read(&one.cert).expect("read")[..200]).expect("written");
    let table = [
        (
            pair(&one_key, &one_cert),
            2,
            "one.key: no certificate in it, but a private key; are the files of certificate and key exchanged?",
        ),
        (
            pair(&one_cert, &one_cert),
            3,
            "one.pem: no private key in it, but a certificate; are the files of certificate and key exchanged?",
        ),
        (
            pair(&one_cert, &made("x.key", &["pkey", "-aes128", "-passout", "pass:x", "-in", &one_key])),
            3,
            "x.key: the private key is encrypted",
        ),
        (
            pair(&made("x.der", &["x509", "-outform", "der", "-in", &one_cert]), &one_key),
            2,
            "x.der: it is DER; convert it to PEM: openssl x509",
        ),
        (
            pair(&one_cert, &made("y.der", &["pkey", "-outform", "der", "-in", &one_key])),
            3,
            "y.der: it is DER; convert it to PEM: openssl pkey",
        ),
        (
            pair(&cut, &one_key),
            2,
            "cut.pem: the certificate is cut short: it has no line -----END CERTIFICATE-----",
        ),
        (pair(&one_cert, &public), 3, "public.key: no private key in it, but 'public key'"),
    ];
    for (tables, line, expected) in table {
        assert_refused(&format!("{tables}[[site]]\norigin = 'http://127.0.0.1:1'\n"), line, expected);
    }
}

/// Checks that commands refuse this config with an error about this line.
fn assert_refused(config: &str, line: u32, expected: &str) {
    let listen = "[reverse]\nlisten = '127.0.0.1:0'\nlisten_tls = '127.0.0.1:0'\n";
    let (_folder, file) = file_with("larder.toml", &format!("{config}{listen}"));
    for command in [&["check"][..], &["serve", "--admin", "off"]] {
        let mut larder = Command::new(env!("CARGO_BIN_EXE_larder"));
        let output = larder.args(command).arg("--config").arg(&file).output().expect("it runs");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(
            told.contains(&format!("larder.toml:{line}: ")) && told.contains(expected),
            "{command:?}: {told}"
        );
        assert!(!output.status.success());
    }
}

#[test]
fn one_flag_is_enough_to_try_tls() {
    let (authority, origin) = (Authority::new(), Origin::always(PAGE));
    let state = tempfile::tempdir().expect("a folder");
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command.env("STATE_DIRECTORY", state.path()).args(["serve", "--tls-self-signed", "--stats", "none"]);
        command.args(["--listen", "127.0.0.1:0", "--listen-tls", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        command.args(["--origin", &format!("http://{}", origin.address)]);
        super::clients::started(command)
    };
    let mut before = String::new();
    for _ in 0..2 {
        let larder = start();
        let certificate = larder.line("certificate ");
        let path = certificate.split(", SHA-256 ").next().expect("a path").to_owned();
        assert!(before.is_empty() || before == certificate, "it is kept");
        let tried = Command::new("sh").arg("-c").arg(larder.line("to try it: ")).output().expect("sh");
        assert!(String::from_utf8_lossy(&tried.stdout).ends_with("a page"), "{tried:?}");
        let mut curl = Command::new("curl");
        let address = larder.line("listening on 127.0.0.1:").replace(" (reverse, TLS)", "");
        curl.args(["--silent", "--show-error", "--cacert", &path, &format!("https://localhost:{address}/")]);
        let output = curl.output().expect("curl");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "a page", "{told}");
        before = certificate;
    }
    drop(authority);
}

#[test]
fn certificates_that_clients_refuse_are_warnings_like_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("larder.toml");
    let config = larder_testkit::Pair::self_signed_until(folder.path(), "a.test", 2020).table()
        + "[[site]]\norigin = 'http://127.0.0.1:1'\nhosts = ['a.test', 'b.test']\n";
    fs::write(&file, config).expect("written");
    let mut larder = Command::new(env!("CARGO_BIN_EXE_larder"));
    let output = larder.arg("check").arg("--config").arg(&file).output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr);
    let expired = format!("larder: warning: {}:1: the certificate for a.test has expired\n", file.display());
    assert!(output.status.success() && told.contains(&expired), "{told}");
    assert!(told.contains("larder: warning: no [[tls]] has a certificate for b.test\n"), "{told}");
}

#[test]
fn a_chain_that_leads_nowhere_is_a_warning() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let pair = authority.pair("site", &["a.test"]);
    let leaf = fs::read_to_string(&pair.cert).expect("a certificate");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("larder.toml");
    let config = pair.table() + "[[site]]\norigin = 'http://127.0.0.1:1'\nhosts = 'a.test'\n";
    fs::write(&file, config).expect("written");
    for (further, is_whole) in [(authority.file(), true), (stranger.file(), false)] {
        let further = fs::read_to_string(further).expect("a certificate");
        fs::write(&pair.cert, format!("{leaf}{further}")).expect("written");
        let mut larder = Command::new(env!("CARGO_BIN_EXE_larder"));
        let output = larder.arg("check").arg("--config").arg(&file).output().expect("it runs");
        let told = String::from_utf8_lossy(&output.stderr);
        let warning = format!(
            "larder: warning: {}:1: the certificate for a.test is in a file whose further certificates do not lead",
            file.display()
        );
        assert!(output.status.success() && told.contains(&warning) != is_whole, "{told}");
    }
}

#[test]
fn a_certificate_without_its_intermediates_is_a_warning() {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().expect("a folder"));
    let issued = authority.pair("site", &["a.test"]);
    let own = larder_testkit::Pair::self_signed(folder.path(), "a.test");
    let file = folder.path().join("larder.toml");
    let warning = |pair: &larder_testkit::Pair| {
        let config = pair.table() + "[[site]]\norigin = 'http://127.0.0.1:1'\nhosts = 'a.test'\n";
        fs::write(&file, config).expect("written");
        let mut larder = Command::new(env!("CARGO_BIN_EXE_larder"));
        let output = larder.arg("check").arg("--config").arg(&file).output().expect("it runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let expected = format!(
        "larder: warning: {}:1: the certificate for a.test is alone in its file: append the intermediate certificates",
        file.display()
    );
    assert!(warning(&issued).starts_with(&expected), "{}", warning(&issued));
    assert_eq!(warning(&own), "", "nobody else has issued it");
}

#[test]
fn an_expired_certificate_is_reported_in_log_statistics_and_metrics() {
    let (authority, origin) = (Authority::new(), Origin::always(PAGE));
    let folder = tempfile::tempdir().expect("a folder");
    let expired = larder_testkit::Pair::self_signed_until(folder.path(), "a.test", 2020);
    let well =
        [authority.pair("a", &["a.test"]), authority.rsa("b", &["b.test"]), authority.pair("c", &["b.test"])];
    let tables: String = [&expired].into_iter().chain(&well).map(|pair| pair.table()).collect();
    let larder = Larder::start(&format!("{LISTEN}{tables}{}", site(&[&origin], "")));
    larder.wait_for_log("larder.toml:4: the certificate for a.test has expired");
    let certificates = larder.stats()["tls"]["certificates"].clone();
    assert_eq!(certificates[0]["trouble"], "has expired", "{certificates}");
    assert!(certificates[1]["trouble"].is_null(), "{certificates}");
    let metrics = larder.ask_admin("GET /metrics").text().to_owned();
    let name = "larder_tls_certificate_expiry_timestamp_seconds{";
    let lines: Vec<_> = metrics.lines().filter_map(|line| line.strip_prefix(name)).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines[0].starts_with("name=\"a.test\"} 1577836800") && lines[1].starts_with("name=\"b.test\""),
        "{lines:?}"
    );
}

#[test]
fn a_certificate_that_no_listener_uses_is_reported_with_the_remedy() {
    let mut larder = Command::new(env!("CARGO_BIN_EXE_larder"));
    let output = larder.args(["check", "--tls-self-signed"]).output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr);
    let expected = "larder: --tls-self-signed: no listener uses this certificate: add a [[site]] or --origin URL, or set ";
    assert!(output.status.code() == Some(2) && told.starts_with(expected), "{told}");
}
