//! Failures are shown at the top of the page, with their cause and the current effect.

use crate::browser::Browser;
use crate::{WIDE, mixed};
use larder_testkit::{Larder, Origin, Pair, eventually, site};
use std::io::Write;
use std::net::TcpStream;

/// Returns an expression that is true if the list of troubles matches.
fn told(pattern: &str) -> String {
    format!("/{pattern}/.test(document.querySelector('#troubles').innerText)")
}

#[test]
fn the_dashboard_reports_when_and_why_an_origin_is_down() {
    let [well, ill] = [Origin::by(mixed), Origin::by(mixed)];
    let keys = "name = 'shop'\nmax_fails = 1\nfail_timeout = '1h'";
    let larder = Larder::with_site(&[&well, &ill], keys);
    let mut browser = Browser::at(larder.admin, WIDE);
    browser.until("document.querySelectorAll('#sites .unknown').length === 2");
    assert_eq!(browser.eval("document.querySelector('#troubles').hidden"), true);
    ill.die();
    (0..4).for_each(|number| drop(larder.get(&format!("/b/{number}"))));
    let others = r"is down since \d\d:\d\d:\d\d: .*refused.*The other origins of the site get its requests\.";
    browser.until(&told(&format!("Origin http:..{} of shop {others}", ill.address)));
    browser.until("/^down http\\S+ for \\d+ s, 1 failed request$/.test(document.querySelector('#sites .ill').innerText)");
    well.die();
    (0..4).for_each(|number| drop(larder.get(&format!("/b/{number}"))));
    browser.until("document.querySelectorAll('#troubles li').length === 2");
    browser.until(&told("answered from the cache, or with 502 without a usable stored response"));
    browser.is_content(larder.admin);
}

#[test]
fn the_dashboard_reports_when_and_why_a_certificate_is_not_issued() {
    let (origin, state) = (Origin::by(mixed), tempfile::tempdir().expect("a folder"));
    let keys = "hosts = 'site.test'\nacme = { directory = 'https://127.0.0.1:1/dir' }";
    let listen = "[reverse]\nlisten = '127.0.0.1:0'\nlisten_tls = '127.0.0.1:0'\n";
    let config = format!("{listen}{}", site(&[&origin], keys));
    let larder = Larder::start_in(&config, &[("STATE_DIRECTORY", state.path())]);
    let mut browser = Browser::at(larder.admin, WIDE);
    browser.until(&told(
        r"^No new certificate for site\.test since \d\d:\d\d:\d\d: .*127\.0\.0\.1:1.*Clients cannot reach it over TLS\.$",
    ));
    browser.is_content(larder.admin);
}

#[test]
fn an_expired_certificate_is_reported_and_handshakes_are_counted() {
    let (origin, folder) = (Origin::by(mixed), tempfile::tempdir().expect("a folder"));
    let pair = Pair::self_signed_until(folder.path(), "site.test", 2020);
    let listen = "[reverse]\nlisten = '127.0.0.1:0'\nlisten_tls = '127.0.0.1:0'\n";
    let larder = Larder::start(&format!("{listen}{}{}", pair.table(), site(&[&origin], "")));
    let mut browser = Browser::at(larder.admin, WIDE);
    browser.until(&told(r"^The certificate for site\.test has expired\.$"));
    drop(
        TcpStream::connect(larder.door("reverse, TLS")).and_then(|mut stream| stream.write_all(b"\x16\x03")),
    );
    browser.until(
        "/ · 0 TLS handshakes, 0 resumed, 1 failed$/.test(document.querySelector('#about').innerText)",
    );
    browser.is_content(larder.admin);
}

#[test]
fn a_disk_that_is_not_used_is_reported_with_the_cause() {
    let (origin, folder) = (Origin::by(mixed), tempfile::tempdir().expect("a folder"));
    let tables =
        format!("[[disk]]\npath = '{}'\nsize = '64MiB'\n{}", folder.path().display(), site(&[&origin], ""));
    let first = Larder::start(&tables);
    eventually("a disk in use", || (first.stats()["disks"][0]["state"] == "ready").then_some(()));
    let second = Larder::start(&tables);
    let mut browser = Browser::at(second.admin, WIDE);
    browser
        .until(&told(r"^Disk \S+ is not in use: .*in use by process \d+.*tries every second to open it\.$"));
    drop(first);
    browser.until("document.querySelector('#troubles').hidden");
    browser.is_content(second.admin);
}
