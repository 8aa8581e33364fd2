//! The first order of a certificate: both challenges, the responses to clients before the certificate exists, and the
//! files that a later process reuses.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use larder_testkit::{Client, Larder, eventually, site};

use crate::pebble::Pebble;
use crate::world::{LONG, World, ended, fetch, figures, leaf, wait_for, wait_for_inquiry};

#[test]
fn each_challenge_leads_to_a_certificate_whatever_redirects_and_rules_say() {
    for (kind, files) in [("http-01", true), ("tls-alpn-01", false)] {
        let Some(pebble) = Pebble::start(LONG) else { return };
        let world = World::new();
        let acme = pebble.acme(&format!(", challenge = '{kind}'"));
        let rule =
            "https = 'redirect'\n[[site.rule]]\nmatch = { path = '/.well-known/*' }\ndeny = ['0.0.0.0/0']";
        let keys = format!("hosts = ['site.test', 'www.site.test']\n{acme}\n{rule}");
        let larder = world.start_by(&format!("{}{}", pebble.listen(), site(&[&world.origin], &keys)));
        for host in ["site.test", "www.site.test"] {
            wait_for(&larder, host);
            assert_eq!(fetch(&pebble.root(), pebble.ports[1], host).as_deref(), Ok("a page"), "{kind}");
        }
        assert_eq!((ended(&larder, "issued"), ended(&larder, "failed")), (2, 0), "{kind}");
        assert_eq!(pebble.said("Attempting to validate w/ HTTP") > 0, files, "{kind}");
        // After the order, the site's rules apply to the path of challenges again.
        let mut client = Client::to(larder.address());
        let asked = client.ask("GET /.well-known/acme-challenge/x\nHost: site.test");
        assert_eq!(asked.status, 403, "{kind}");
    }
}

#[test]
fn a_handshake_of_an_authority_ends_there_and_clients_never_get_its_certificate() {
    let Some(pebble) = Pebble::start(LONG) else { return };
    let world = World::new();
    let larder = world.start(&pebble);
    wait_for(&larder, "site.test");
    let handshake = |protocols: &str| {
        let mut openssl = Command::new("openssl");
        openssl.args(["s_client", "-connect", &format!("127.0.0.1:{}", pebble.ports[1])]);
        openssl.args(["-servername", "site.test", "-alpn", protocols]);
        let output = openssl.stdin(std::process::Stdio::null()).output().expect("openssl");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let alone = handshake("acme-tls/1");
    assert!(!alone.contains("BEGIN CERTIFICATE"), "{alone}");
    let beside = handshake("acme-tls/1,http/1.1");
    assert!(beside.contains("ALPN protocol: http/1.1") && beside.contains(&leaf(&world.kept())), "{beside}");
}

#[test]
fn before_the_first_certificate_handshakes_fail_and_the_log_says_why() {
    let Some(pebble) = Pebble::prepare(LONG) else { return };
    let world = World::new();
    let larder = world.start(&pebble);
    let refused = fetch(&pebble.directory_certificate(), pebble.ports[1], "site.test").expect_err("none yet");
    assert!(refused.contains("unrecognized name"), "{refused}");
    larder.wait_for_log("a client requested site.test, for which no authority has issued a certificate yet");
    let counted = || larder.stats()["tls"]["handshakes"]["no-certificate"].as_u64();
    eventually("the failure in figures", || (counted() == Some(1)).then_some(()));
    assert_eq!(figures(&larder, "site.test")["state"], "awaited");
}

#[test]
fn a_later_process_uses_what_is_kept_and_orders_nothing() {
    let Some(pebble) = Pebble::start(LONG) else { return };
    let world = World::new();
    let larder = world.start(&pebble);
    wait_for_inquiry(&larder, &pebble, 0);
    drop(larder);
    let (kept, account) = (world.kept(), std::fs::read(world.file("_account.json")).expect("an account"));
    for name in ["site.test.pem", "_account.json"] {
        let mode = world.file(name).metadata().expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let larder = world.start(&pebble);
    assert_eq!(fetch(&pebble.root(), pebble.ports[1], "site.test").as_deref(), Ok("a page"));
    // After this inquiry, the process has had the time to order.
    wait_for_inquiry(&larder, &pebble, 1);
    assert_eq!((pebble.orders(), ended(&larder, "issued")), (1, 0));
    assert_eq!(world.kept(), kept);
    assert_eq!(std::fs::read(world.file("_account.json")).expect("an account"), account);
}

#[test]
fn a_reload_orders_for_new_names_and_leaves_orders_in_progress_alone() {
    let Some(pebble) = Pebble::start_with(LONG, ("PEBBLE_VA_NOSLEEP", "0")) else { return };
    let world = World::new();
    let larder = world.start(&pebble);
    eventually("an order", || (pebble.orders() == 1).then_some(()));
    larder.reload(&world.config(&pebble, "'site.test', 'new.test'", ""));
    wait_for(&larder, "site.test");
    wait_for(&larder, "new.test");
    assert_eq!((pebble.orders(), ended(&larder, "failed")), (2, 0));
    larder.reload(&world.config(&pebble, "'new.test'", ""));
    eventually("the end of a name", || {
        let names = larder.stats()["acme"]["names"].as_array().map(Vec::len);
        (names == Some(1)).then_some(())
    });
    assert_eq!(fetch(&pebble.root(), pebble.ports[1], "new.test").as_deref(), Ok("a page"));
}

#[test]
fn check_says_what_is_there_and_what_will_be_ordered() {
    let Some(pebble) = Pebble::start(LONG) else { return };
    let world = World::new();
    let config = world.state.path().join("larder.toml");
    std::fs::write(&config, world.config(&pebble, "'site.test', 'new.test'", "")).expect("written");
    let check = || {
        let mut larder = Command::new(env!("CARGO_BIN_EXE_larder"));
        larder.env("STATE_DIRECTORY", world.state.path()).args(["check", "--config"]).arg(&config);
        let output = larder.output().expect("it runs");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let ordered = |name: &str| format!("acme     {name}, to be ordered from {}", pebble.directory());
    let text = check();
    assert!(text.contains(&ordered("site.test")) && text.contains(&ordered("new.test")), "{text}");
    assert!(text.contains("acme: the authority connects to port 80 or 443, where no listener is"), "{text}");
    let larder: Larder = world.start(&pebble);
    wait_for(&larder, "site.test");
    let text = check();
    assert!(
        text.contains("acme     site.test, 89 days left") && text.contains(&ordered("new.test")),
        "{text}"
    );
}
