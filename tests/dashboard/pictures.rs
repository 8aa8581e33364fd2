//! The pictures of the dashboard in the documentation: `cargo x pictures` renders them.

mod states;

use std::path::Path;
use std::time::Duration;

use larder_testkit::{Larder, Origin, Seen};

use crate::browser::Browser;
use crate::traffic::Traffic;

/// Bytes of the largest picture that may be kept.
const LARGEST: usize = 300_000;
/// How long there is traffic before the pictures are taken, so that charts have something to show.
const LONG: Duration = Duration::from_secs(90);
const PAGES: u64 = 3_000;

/// Something like a shop: pictures that may be kept, an API that may for a little, carts that may not.
fn shop(seen: &Seen) -> String {
    let path = seen.target.as_str();
    let size = 400 + path.bytes().map(u64::from).sum::<u64>() % 23 * 900;
    let content = "x".repeat(size as usize);
    // Pages are made by programs, which take their time.
    std::thread::sleep(Duration::from_micros(4_000 + size));
    if path.starts_with("/cart") {
        format!("200 OK\nCache-Control: private, no-store\n\n{content}")
    } else if path.starts_with("/api") {
        match seen.field("if-none-match") {
            Some(_) => "304 Not Modified\nETag: \"1\"\nCache-Control: max-age=5".to_owned(),
            None => format!("200 OK\nCache-Control: max-age=5\nETag: \"1\"\n\n{content}"),
        }
    } else {
        format!("200 OK\nCache-Control: max-age=86400\n\n{content}")
    }
}

/// A path for the request with this number: few are asked for often, many seldom.
fn path(number: u64) -> String {
    let random = fastrand::Rng::with_seed(number).f64();
    let page = (PAGES as f64).powf(random) as u64;
    // Gently, and not always as gently: a client waits some milliseconds, more in some minutes than in others.
    let wave = 2.0 + 1.5 * (number as f64 / 4_000.0).sin();
    std::thread::sleep(Duration::from_secs_f64(wave / 1_000.0));
    match number % 12 {
        0 => format!("/cart/{}", number % 40),
        1..=3 => format!("/api/items/{page}"),
        4 => format!("/docs/{page}.html\nHost: wiki.test"),
        _ => format!("/images/products/{page}.jpg"),
    }
}

#[test]
#[ignore = "writes docs/pictures; `cargo x pictures` runs it"]
fn pictures() {
    let (origin, other) = (Origin::by(shop), Origin::by(shop));
    let folder = tempfile::tempdir().expect("a folder");
    let tables = format!(
        "[stats]\nurl = 'sqlite:{}'\n[memory]\nsize = '8MiB'\n[[site]]\nname = 'shop'\nhosts = ['site.test']\n\
         fail_timeout = '60s'\n\
         origin = ['http://{}', 'http://{}']\n[[site]]\nname = 'wiki'\nhosts = ['wiki.test']\norigin = 'http://{}'",
        folder.path().join("s.db").display(),
        origin.address,
        other.address,
        origin.address,
    );
    let larder = Larder::start(&tables);
    let mut browser = Browser::at(larder.admin, 1440);
    let traffic = Traffic::start(&larder, path);
    std::thread::sleep(LONG);
    other.die();
    std::thread::sleep(LONG / 10);
    browser.until("document.querySelectorAll('#top tbody tr').length === 10");
    let pictures = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pictures");
    std::fs::create_dir_all(&pictures).expect("a folder");
    for (name, width, height, dark) in [
        ("wide-light", 1440, 1300, false),
        ("wide-dark", 1440, 1300, true),
        ("narrow-light", 390, 1300, false),
        ("narrow-dark", 390, 1300, true),
    ] {
        browser.resize(width, height, dark);
        // The charts follow the width, and are redrawn with the next figures.
        std::thread::sleep(Duration::from_millis(2_500));
        let picture = browser.picture();
        assert!(picture.len() < LARGEST, "{name}: {} bytes", picture.len());
        std::fs::write(pictures.join(format!("dashboard-{name}.png")), picture).expect("written");
    }
    traffic.stop();
    browser.is_content(larder.admin);
}
