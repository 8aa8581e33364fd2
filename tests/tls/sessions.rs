//! Sessions that are resumed, by the same process and by other nodes, and the keys of their tickets; no early data.

use std::process::Command;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::clients::s_client;
use super::{Authority, TLS, config};
use larder_testkit::nodes::cluster;
use larder_testkit::{Engine, Larder, Origin, eventually, output};

const GET: &str = "GET / HTTP/1.0\r\nHost: site.test\r\n\r\n";

#[test]
fn a_tls_session_is_resumed_by_workers_but_not_after_a_restart() {
    let (authority, origin) = (Authority::new(), Origin::always("200 OK\n\na page"));
    let state = tempfile::tempdir().expect("a folder");
    let (config, folder) = (config(&authority, &origin, ""), tempfile::tempdir().expect("a folder"));
    for version in ["-tls1_2", "-tls1_3"] {
        let file = folder.path().join(version).display().to_string();
        let start = || Larder::start_in(&config, &[("STATE_DIRECTORY", state.path())]);
        let first = start();
        let said = s_client(&authority, first.door(TLS), &[version, "-sess_out", &file], GET);
        assert!(said.has("New, TLSv1."), "{}{}", said.text(), said.err);
        for _ in 0..6 {
            let said = s_client(&authority, first.door(TLS), &[version, "-sess_in", &file], GET);
            assert!(said.has("Reused, TLSv1.") && said.has("a page"), "{}{}", said.text(), said.err);
        }
        drop(first);
        let second = start();
        let said = s_client(&authority, second.door(TLS), &[version, "-sess_in", &file], GET);
        assert!(said.has("New, TLSv1.") && said.has("a page"), "{}{}", said.text(), said.err);
    }
}

#[test]
fn a_tls_session_is_resumed_after_upgrades() {
    let (authority, origin) = (Authority::new(), Origin::always("200 OK\n\na page"));
    let (mut larder, folder) =
        (super::larder(&authority, &origin, ""), tempfile::tempdir().expect("a folder"));
    let file = folder.path().join("session").display().to_string();
    let said = s_client(&authority, larder.door(TLS), &["-sess_out", &file], GET);
    assert!(said.has("New, TLSv1.3"), "{}{}", said.text(), said.err);
    for _ in 0..2 {
        larder.upgrade(&[]).expect("an upgrade");
        larder.wait_for_predecessor();
        assert!(resumes(&authority, &larder, &file));
    }
}

/// Starts a node with TLS for clients in the cluster of `engine` with this token.
fn node(engine: &Engine, authority: &Authority, origin: &Origin, name: &str, token: &str) -> Larder {
    let keys = format!("engine = '{}'\nnode = '{name}'\nlisten = '127.0.0.1:0'\n", engine.url());
    let cluster = format!("[cluster]\n{keys}prefix = '{token}'\ntoken = '{token}'\n");
    Larder::start(&format!("{cluster}{}", config(authority, origin, "")))
}

/// Whether `node` resumes the session in `file`.
fn resumes(authority: &Authority, node: &Larder, file: &str) -> bool {
    let said = s_client(authority, node.door(TLS), &["-sess_in", file], GET);
    assert!(said.has("a page"), "{}{}", said.text(), said.err);
    said.has("Reused, TLSv1.3")
}

/// Waits until the two nodes have the same key of tickets, and writes a session of the first into `file`.
fn shared_session(authority: &Authority, [first, second]: [&Larder; 2], file: &str) {
    eventually("a key that both nodes have", || {
        let said = s_client(authority, first.door(TLS), &["-sess_out", file], GET);
        assert!(said.has("New, TLSv1.3"), "{}{}", said.text(), said.err);
        resumes(authority, second, file).then_some(())
    });
}

/// Returns the name of the key of the ticket in `file`: its first bytes, in hexadecimal.
fn key_name(file: &str) -> String {
    let said = output(Command::new("openssl").args(["sess_id", "-noout", "-text", "-in", file]));
    let mut lines = said.lines().skip_while(|line| !line.contains("TLS session ticket:"));
    let name = lines.nth(1).and_then(|line| line.split("- ").nth(1)).expect("a ticket");
    name[..47].to_owned()
}

#[test]
fn a_session_is_resumed_by_the_nodes_of_its_cluster_alone() {
    let (authority, origin, engine) = (Authority::new(), Origin::always("200 OK\n\na page"), Engine::start());
    let [first, second, stranger] =
        [("a", "0123456789abcdef"), ("b", "0123456789abcdef"), ("c", "fedcba9876543210")]
            .map(|(name, token)| node(&engine, &authority, &origin, name, token));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("session").display().to_string();
    shared_session(&authority, [&first, &second], &file);
    assert!(!resumes(&authority, &stranger, &file));
}

#[test]
fn nodes_replace_their_common_ticket_key_and_erase_the_one_before() {
    let (authority, origin, engine) = (Authority::new(), Origin::always("200 OK\n\na page"), Engine::start());
    let token = "0123456789abcdef";
    let [first, second] = ["a", "b"].map(|name| node(&engine, &authority, &origin, name, token));
    let folder = tempfile::tempdir().expect("a folder");
    let [old, new, newest] =
        ["old", "new", "newest"].map(|name| folder.path().join(name).display().to_string());
    let key = format!("{{{token}}}:tickets");
    shared_session(&authority, [&first, &second], &old);
    let left: u64 = engine.tell(&["--raw", "pttl", &key]).trim().parse().expect("a time");
    assert!((22 * 3_600_000..24 * 3_600_000).contains(&left), "{left} ms");
    let mut latest = key_name(&old);
    for (file, is_held) in [(&new, true), (&newest, false)] {
        // As if its time were over.
        engine.tell(&["del", &key]);
        latest = eventually("another key", || {
            shared_session(&authority, [&first, &second], file);
            Some(key_name(file)).filter(|name| *name != latest)
        });
        for node in [&first, &second] {
            assert_eq!(resumes(&authority, node, &old), is_held, "{file}");
        }
    }
}

#[test]
fn a_ticket_key_that_no_node_wrote_is_ignored() {
    let (authority, origin, engine) = (Authority::new(), Origin::always("200 OK\n\na page"), Engine::start());
    let token = "0123456789abcdef";
    engine.tell(&["set", &format!("{{{token}}}:tickets"), &"0".repeat(76)]);
    let node = node(&engine, &authority, &origin, "a", token);
    eventually("a key that is ignored", || (cluster(&node)["forged"]["members"].as_u64()? > 0).then_some(()));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("session").display().to_string();
    s_client(&authority, node.door(TLS), &["-sess_out", &file], GET);
    assert!(resumes(&authority, &node, &file), "by a key of its own");
}

/// Changes a session that `s_client` has written, so that `s_client` sends early data with it: adds the element
/// `max_early_data`, which has the number 15 (the file `ssl/ssl_asn1.c` of OpenSSL).
fn with_early_data(session: &str) -> String {
    let is_text = |line: &&str| !line.starts_with("---");
    let bytes = BASE64_STANDARD.decode(session.lines().filter(is_text).collect::<String>()).expect("base64");
    let length = |at: usize| match bytes[at + 1] {
        0x81 => 3 + usize::from(bytes[at + 2]),
        0x82 => 4 + usize::from(u16::from_be_bytes([bytes[at + 2], bytes[at + 3]])),
        short => 2 + usize::from(short),
    };
    assert_eq!(bytes[..2], [0x30, 0x82], "a sequence with a length of two bytes");
    let mut at = 4;
    while at < bytes.len() && bytes[at] < 0xaf {
        at += length(at);
    }
    let content = [&bytes[4..at], &[0xaf, 4, 2, 2, 0x40, 0], &bytes[at..]].concat();
    let head = [&[0x30, 0x82], &u16::try_from(content.len()).expect("a short session").to_be_bytes()[..]];
    let lines = BASE64_STANDARD.encode([head.concat(), content].concat());
    let lines: Vec<_> = lines.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    let marks = ["BEGIN", "END"].map(|mark| format!("-----{mark} SSL SESSION PARAMETERS-----"));
    format!("{}\n{}\n{}\n", marks[0], lines.join("\n"), marks[1])
}

#[test]
fn early_data_is_neither_offered_nor_accepted() {
    let (authority, origin) = (Authority::new(), Origin::always("200 OK\n\na page"));
    let larder = Larder::start(&config(&authority, &origin, ""));
    let folder = tempfile::tempdir().expect("a folder");
    let [session, early] = ["session", "early"].map(|name| folder.path().join(name));
    let [session_file, early_file] = [&session, &early].map(|path| path.display().to_string());
    std::fs::write(&early, "GET /early HTTP/1.1\r\nHost: site.test\r\n\r\n").expect("written");
    let said = s_client(&authority, larder.door(TLS), &["-tls1_3", "-sess_out", &session_file], GET);
    assert!(said.has("Max Early Data: 0") && said.has("a page"), "{}{}", said.text(), said.err);
    let words = ["-tls1_3", "-sess_in", &session_file, "-early_data", &early_file];
    let said = s_client(&authority, larder.door(TLS), &words, GET);
    assert!(said.has("Reused, TLSv1.3") && said.has("Early data was not sent"), "{}", said.text());
    // A client that sends it nevertheless.
    let offered = with_early_data(&std::fs::read_to_string(&session).expect("a session"));
    std::fs::write(&session, offered).expect("written");
    let said = s_client(&authority, larder.door(TLS), &words, GET);
    assert!(said.has("Early data was rejected") && said.has("a page"), "{}{}", said.text(), said.err);
    assert_eq!((origin.count(), origin.count_of("/early")), (3, 0));
}

#[test]
fn old_versions_and_suites_are_refused() {
    let (authority, origin) = (Authority::new(), Origin::always("200 OK\n\na page"));
    let larder = Larder::start(&config(&authority, &origin, ""));
    let refused: [&[&str]; 4] = [
        &["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"],
        &["-tls1", "-cipher", "ALL:@SECLEVEL=0"],
        &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA256"],
        &["-tls1_2", "-cipher", "AES128-SHA"],
    ];
    for words in refused {
        let said = s_client(&authority, larder.door(TLS), words, GET);
        assert!(!said.ok && !said.has("a page"), "{words:?}: {}{}", said.text(), said.err);
    }
    let said = s_client(&authority, larder.door(TLS), &["-groups", "P-384"], GET);
    assert!(said.has("a page"), "{}{}", said.text(), said.err);
}
