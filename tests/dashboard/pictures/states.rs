//! Pictures of the page in each state, which each test causes: `cargo x pictures` writes them to the folder `pictures`
//! of the target directory, for review by a person. They are not under version control.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use larder_testkit::nodes::{self, three};
use larder_testkit::{Answer, Engine, Larder, Origin, eventually};
use rustix::process::Signal;
use tempfile::TempDir;

use super::{path, shop};
use crate::browser::{Browser, HAS_ROOM_FOR_STATE};
use crate::traffic::Traffic;
use crate::{WIDE, mixed};

const LOOKS: [(&str, u32, bool); 6] = [
    ("wide-light", 1400, false),
    ("wide-dark", 1400, true),
    ("phone-light", 360, false),
    ("phone-dark", 360, true),
    ("large-phone-light", 414, false),
    ("large-phone-dark", 414, true),
];
/// An expression that is true once the charts have adapted to the page's width.
const FITS: &str = "[...document.querySelectorAll('.canvas')].every((box) => box.offsetParent === null \
     || Math.abs(box.querySelector('.uplot').clientWidth - box.clientWidth) < 2)";

/// An expression that returns the texts that do not fit into their elements.
const CUT: &str = "[...document.querySelectorAll('html, .scroll, th .name, td, .tile dd')] \
     .filter((box) => box.scrollWidth > box.clientWidth + 1).map((box) => box.innerText).join(' | ')";

/// An expression that returns the buttons that are not wholly within the page's width.
const OUT_OF_REACH: &str = "[...document.querySelectorAll('main button')].map((button) => [button, button.getBoundingClientRect()]) \
     .filter(([, box]) => box.width > 0 && (box.left < 0 || box.right > innerWidth)).map(([button]) => button.innerText).join(' | ')";

/// Takes pictures of the current page, in each width and in each colour scheme.
fn take(browser: &mut Browser, state: &str) {
    let folder = folder();
    fs::create_dir_all(&folder).expect("a folder");
    browser.eval("scrollTo({ top: 0, behavior: 'instant' })");
    for (look, width, dark) in LOOKS {
        browser.resize(width, 900, dark);
        browser.until(FITS);
        browser.until(&format!("{CUT} === ''"));
        assert_eq!(browser.eval(OUT_OF_REACH), "", "{state} {look}");
        assert_eq!(browser.eval(HAS_ROOM_FOR_STATE), true, "{state} {look}");
        browser.eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
        fs::write(folder.join(format!("{state}-{look}.png")), browser.whole_picture()).expect("written");
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("pictures")
}

/// Opens the page of `larder`, and waits until it follows the figures.
fn page(larder: &Larder) -> Browser {
    let mut browser = Browser::at(larder.admin, WIDE);
    browser.until("document.querySelector('#state').innerText === 'live'");
    browser
}

/// Starts a shop and a wiki before these origins, with a statistics database in `folder`.
fn shop_and_wiki(folder: &TempDir, origins: [&Origin; 3], tables: &str) -> Larder {
    let [one, other, wiki] = origins.map(|origin| format!("'{}'", origin.url()));
    Larder::start(&format!(
        "{tables}\n[stats]\nurl = 'sqlite:{}'\n[memory]\nsize = '1MiB'\n\
         [[site]]\nname = 'shop'\nhosts = ['site.test']\nfail_timeout = '60s'\norigin = [{one}, {other}]\n\
         [[site]]\nname = 'wiki'\nhosts = ['wiki.test']\norigin = {wiki}",
        folder.path().join("s.db").display()
    ))
}

#[test]
#[ignore = "takes pictures; `cargo x pictures` runs it"]
fn empty() {
    let larder = Larder::before(&Origin::by(mixed));
    take(&mut page(&larder), "empty");
}

#[test]
#[ignore = "takes pictures; `cargo x pictures` runs it"]
fn first_minute() {
    let origin = Origin::by(shop);
    let larder = Larder::before(&origin);
    let mut browser = page(&larder);
    browser.until("document.querySelector('#plots figcaption .quiet').innerText.includes(':')");
    for path in ["/", "/style.css", "/images/logo.png", "/images/logo.png", "/cart/1", "/api/items/1"] {
        larder.get(path);
        std::thread::sleep(Duration::from_millis(700));
    }
    browser.until("document.querySelectorAll('#top tbody .open').length === 5");
    browser.until("document.querySelectorAll('#objects tbody button').length > 0");
    take(&mut browser, "first-minute");
}

#[test]
#[ignore = "takes pictures; `cargo x pictures` runs it"]
fn busy() {
    let (origin, folder) = (Origin::by(shop), tempfile::tempdir().expect("a folder"));
    let disk = folder.path().join("disk");
    let tables = format!("[validate]\nsample = 0.05\n[[disk]]\npath = '{}'\nsize = '64MiB'", disk.display());
    let larder = shop_and_wiki(&folder, [&origin; 3], &tables);
    let mut browser = page(&larder);
    let traffic = Traffic::start(&larder, path);
    browser.until("document.querySelectorAll('#top tbody .open').length === 10");
    std::thread::sleep(Duration::from_secs(8));
    let mut browser = page(&larder);
    browser.until("document.querySelectorAll('#groups tbody td').length > 0");
    browser.until("document.querySelectorAll('#misses tbody .open').length === 10");
    browser.click("#misses .open");
    browser.until("document.querySelector('#misses .below dl') !== null");
    take(&mut browser, "busy");
    browser.click("#objects .act button");
    browser.until("document.querySelector('#purge').open");
    take(&mut browser, "purge");
    traffic.stop();
}

#[test]
#[ignore = "takes pictures; `cargo x pictures` runs it"]
fn origin_down() {
    let [well, ill, wiki] = [shop, shop, shop].map(Origin::by);
    let folder = tempfile::tempdir().expect("a folder");
    let larder = shop_and_wiki(&folder, [&well, &ill, &wiki], "");
    let traffic = Traffic::start(&larder, path);
    let mut browser = page(&larder);
    browser.until("document.querySelectorAll('#top tbody .open').length === 10");
    ill.die();
    wiki.die();
    browser.until("document.querySelectorAll('#sites .ill').length === 2");
    std::thread::sleep(Duration::from_secs(2));
    take(&mut browser, "origin-down");
    traffic.stop();
}

/// One request in seven fails: an origin has no answer to some, and an application's error for others.
#[test]
#[ignore = "takes pictures; `cargo x pictures` runs it"]
fn failing() {
    let origin = Origin::answering(|seen| match seen.target.as_bytes().last() {
        _ if seen.target.starts_with("/cart") && seen.target.contains("3?") => Answer::default().then_close(),
        Some(b'7') if seen.target.starts_with("/api") => Answer::with_body("500 Broken", b"no"),
        _ => {
            let response = shop(seen);
            let (head, body) = response.split_once("\n\n").unwrap_or((&response, ""));
            Answer::with_body(head, body.as_bytes())
        }
    });
    let folder = tempfile::tempdir().expect("a folder");
    let larder = shop_and_wiki(&folder, [&origin; 3], "");
    let traffic = Traffic::start(&larder, |number| match number % 7 {
        0 if number % 2 == 0 => format!("/cart/{}3?session={}", number % 50, "0123456789".repeat(6)),
        0 => format!("/api/items/{}7", number % 90),
        _ => path(number),
    });
    let mut browser = page(&larder);
    browser.until("document.querySelectorAll('#failing tbody .open').length === 10");
    browser.until("document.querySelectorAll('#misses tbody .open').length === 10");
    std::thread::sleep(Duration::from_secs(4));
    take(&mut browser, "failing");
    traffic.stop();
}

/// Three disks: one is in use by another process, one loses its folder, and one is full, where a file system can be
/// mounted.
#[test]
#[ignore = "takes pictures; `cargo x pictures` runs it"]
fn disk_sick() {
    let (origin, folder) = (Origin::by(shop), tempfile::tempdir().expect("a folder"));
    let disk = |name: &str| {
        let path = folder.path().join(name);
        format!("[[disk]]\npath = '{}'\nsize = '16MiB'\n", path.display())
    };
    let first = Larder::with(&origin, &disk("used"));
    eventually("a disk in use", || (first.stats()["disks"][0]["state"] == "ready").then_some(()));
    let full = folder.path().join("full");
    fs::create_dir(&full).expect("a folder");
    let mount = format!("mount -t tmpfs -o size=2m tmpfs '{}' && exec \"$@\"", full.display());
    let tables = ["used", "taken", "full"].map(disk).concat();
    let config = format!("[memory]\nsize = '1MiB'\n{tables}\n{}", larder_testkit::site(&[&origin], ""));
    let larder = Larder::start_behind(&["unshare", "--mount", "sh", "-c", &mount, "sh"], &config);
    eventually("a disk in use", || (larder.stats()["disks"][1]["state"] == "ready").then_some(()));
    fs::remove_dir_all(folder.path().join("taken")).expect("removed");
    // The file system is mounted in the proxy's mount namespace, not in this test's.
    let filler = format!("/proc/{}/root{}/other", larder.id(), full.display());
    let filled = fs::write(&filler, vec![0; 4 << 20]);
    assert!(filled.is_err(), "the file system has more room than it should");
    let traffic = Traffic::start(&larder, |number| format!("/images/{number}.jpg"));
    let state = |disk: usize, state: &str| {
        eventually(state, || (larder.stats()["disks"][disk]["state"] == state).then_some(()));
    };
    state(0, "off");
    state(1, "paused");
    state(2, "full");
    let mut browser = page(&larder);
    browser.until("document.querySelectorAll('#troubles li').length === 3");
    take(&mut browser, "disk-sick");
    traffic.stop();
}

/// One node is killed, and one hangs; then the engine is killed, too.
#[test]
#[ignore = "takes pictures; `cargo x pictures` runs it"]
fn cluster() {
    let (origin, mut engine) = (Origin::by(shop), Engine::start());
    let mut nodes = three(&engine, &origin, "");
    (0..200).for_each(|number| drop(nodes[0].get(&format!("/images/{number}.jpg"))));
    take(&mut page(&nodes[0]), "cluster");
    drop(nodes.pop());
    nodes::wait_for(&nodes, &["a", "b"]);
    nodes[1].signal(Signal::STOP);
    (200..300).for_each(|number| drop(nodes[0].get(&format!("/images/{number}.jpg"))));
    let mut browser = page(&nodes[0]);
    browser.until("document.querySelectorAll('#troubles li').length === 2");
    take(&mut browser, "cluster-node-lost");
    engine.kill();
    browser.until("document.querySelector('#engine').innerText.includes(' down for ')");
    take(&mut browser, "cluster-engine-lost");
    nodes[1].signal(Signal::CONT);
}

#[test]
#[ignore = "takes pictures; `cargo x pictures` runs it"]
fn server_lost() {
    let origin = Origin::by(shop);
    let larder = Larder::before(&origin);
    (0..20).for_each(|number| drop(larder.get(&format!("/images/{number}.jpg"))));
    let mut browser = page(&larder);
    drop(larder);
    browser.until("!document.querySelector('#lost').hidden");
    take(&mut browser, "server-lost");
}

/// The test runs itself again in a network with another address, from which the admin listener requires the token.
#[test]
#[ignore = "takes pictures; `cargo x pictures` runs it"]
fn token() {
    if TcpListener::bind((larder_testkit::OUTER, 0)).is_err() {
        return larder_testkit::with_outer_address("pictures::states::token");
    }
    let config =
        format!("admin_token = '0123456789abcdef'\n{}", larder_testkit::site(&[&Origin::by(mixed)], ""));
    let larder = Larder::start_at(&config, "0.0.0.0:0");
    let mut browser = Browser::at(SocketAddr::new(larder_testkit::OUTER, larder.admin.port()), WIDE);
    browser.until("!document.querySelector('#login').hidden");
    take(&mut browser, "token");
    browser.eval("document.querySelector('#token').value = 'fedcba9876543210'; window.tried = true");
    browser.click("#login button");
    browser.until("!window.tried && !document.querySelector('#login').hidden");
    take(&mut browser, "token-wrong");
}
