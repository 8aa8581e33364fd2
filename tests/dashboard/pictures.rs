//! The pictures of the dashboard in the documentation: `cargo x pictures` renders them.

mod states;

use std::path::Path;
use std::time::Duration;

use larder_testkit::{Larder, Origin, Seen};

use crate::browser::Browser;
use crate::traffic::Traffic;

/// The limit of a picture's size, in bytes.
const LARGEST: usize = 300_000;
/// The duration of the traffic before the pictures are taken, so that the charts have data.
const LONG: Duration = Duration::from_secs(90);
const PAGES: u64 = 3_000;

/// Returns a response of a shop: pictures may be stored, the API for a short time, carts not at all.
fn shop(seen: &Seen) -> String {
    let path = seen.target.as_str();
    let size = 400 + path.bytes().map(u64::from).sum::<u64>() % 23 * 900;
    let content = "x".repeat(size as usize);
    // Applications generate the pages, which takes time.
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

/// Returns a path for the request with this number: a few paths are popular, most are not.
fn path(number: u64) -> String {
    let random = fastrand::Rng::with_seed(number).f64();
    let page = (PAGES as f64).powf(random) as u64;
    // Each client pauses for some milliseconds, with a length that varies from minute to minute.
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
        // The charts adapt to the width, and are redrawn with the next figures.
        std::thread::sleep(Duration::from_millis(2_500));
        let picture = browser.picture();
        assert!(picture.len() < LARGEST, "{name}: {} bytes", picture.len());
        std::fs::write(pictures.join(format!("dashboard-{name}.png")), picture).expect("written");
    }
    traffic.stop();
    browser.is_content(larder.admin);
}
