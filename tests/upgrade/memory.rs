//! Stored responses survive an upgrade: no object is fetched again, and no purged one returns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use larder_testkit::{Answer, Client, Larder, Origin, eventually, site};

use super::{seconds, start};

const SMALL: usize = 60;
const LARGE: usize = 20;

/// Returns the content of a page; those of large ones are in memory files.
fn page(target: &str) -> Vec<u8> {
    let len = if target.starts_with("/large") { 150_000 } else { 900 };
    format!("the page at {target}; ").into_bytes().into_iter().cycle().take(len).collect()
}

fn pages() -> Origin {
    Origin::answering(|seen| Answer::with_body("200 OK\nCache-Control: max-age=3600", &page(&seen.target)))
}

fn targets() -> Vec<String> {
    let small = (0..SMALL).map(|number| format!("/small/{number}"));
    small.chain((0..LARGE).map(|number| format!("/large/{number}"))).collect()
}

fn get_all(larder: &Larder, is_hit: bool) {
    for target in targets() {
        let response = larder.get(&target);
        assert_eq!(response.is_hit(), is_hit, "{target}: {response:?}");
        assert!(response.body == page(&target), "{target}");
    }
}

#[test]
fn after_upgrades_every_object_is_a_hit() {
    let origin = pages();
    let (mut larder, _) = start(&origin, "");
    get_all(&larder, false);
    for _ in 0..3 {
        let said = larder.upgrade(&[]).unwrap();
        assert!(said.contains(&format!("{} objects", SMALL + LARGE)), "{said}");
        get_all(&larder, true);
        larder.wait_for_predecessor();
        get_all(&larder, true);
    }
    assert_eq!(origin.count(), SMALL + LARGE);
}

#[test]
fn a_new_process_with_less_memory_keeps_the_pages_used_last() {
    let origin = pages();
    let memory = |size: &str| format!("[memory]\nsize = '{size}'\npolicy = 'lru'\n{}", site(&[&origin], ""));
    let mut larder = Larder::start(&memory("64MiB"));
    get_all(&larder, false);
    // The time of a use has a resolution of a second, of a clock that may be some milliseconds behind.
    let begun = seconds();
    eventually("a later second", || (seconds() > begun + 1).then_some(()));
    let last = targets().split_off(SMALL + LARGE - 5);
    last.iter().for_each(|target| assert!(larder.get(target).is_hit()));
    larder.write_config(&memory("1MiB"));
    larder.upgrade(&[]).unwrap();
    assert!(larder.stat("bytes_stored") <= 1 << 20);
    for target in last {
        let response = larder.get(&target);
        assert!(response.is_hit() && response.body == page(&target), "{target}");
    }
}

#[test]
fn a_limit_holds_over_an_upgrade() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100");
    let rule = "[[site.rule]]\nmatch = { path = '/*' }\nlimit = { requests = '1/h', burst = 3 }\n";
    let mut larder = Larder::start(&site(&[&origin], rule));
    assert_eq!([larder.get("/a").status, larder.get("/a").status], [200; 2]);
    larder.upgrade(&[]).unwrap();
    assert_eq!([larder.get("/a").status, larder.get("/a").status], [200, 429]);
    larder.upgrade(&[]).unwrap();
    assert_eq!(larder.get("/a").status, 429);
}

#[test]
fn ten_requests_a_minute_are_ten_over_many_upgrades() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100");
    let rule = "[[site.rule]]\nlimit = { requests = '10/m', burst = 10 }\n";
    let mut larder = Larder::start(&site(&[&origin], rule));
    let (begun, mut answered) = (Instant::now(), 0);
    for _ in 0..4 {
        let asked = (0..5).filter(|number| larder.get_only(&format!("/{number}")).status == 200);
        answered += asked.count();
        larder.upgrade(&[]).unwrap();
        larder.wait_for_predecessor();
    }
    let regained = begun.elapsed().as_secs() as usize / 6 + 1;
    assert!((10..=10 + regained).contains(&answered), "{answered} in {:?}", begun.elapsed());
}

#[test]
fn a_purge_holds_in_both_processes_of_an_upgrade() {
    let origin = Origin::by(|seen| format!("200 OK\nCache-Control: max-age=100\n\nanswer {}", seen.number));
    let (mut larder, _) = start(&origin, "");
    assert_eq!(larder.get("/a").text(), "answer 0");
    // Each may send one more request to the old process.
    let mut early: Vec<_> = (0..20).map(|_| larder.client()).collect();
    early.iter_mut().for_each(|client| assert_eq!(client.ask("GET /a").text(), "answer 0"));
    larder.upgrade(&[]).unwrap();
    assert_eq!(larder.get("/a").text(), "answer 0");
    assert_eq!(early.pop().unwrap().ask("GET /a").text(), "answer 0");
    purge(&larder);
    assert_eq!(larder.get("/a").text(), "answer 1");
    assert_eq!(early.pop().unwrap().ask("GET /a").text(), "answer 2", "a connection of the old process");
}

fn purge(larder: &Larder) {
    let answer = larder.ask_admin("POST /purge?url=http://site.test/a&hard\nLarder-Admin: 1");
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[test]
fn no_purged_page_is_served_while_upgrades_follow_each_other() {
    let changes = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&changes);
    let origin =
        Origin::by(move |_| format!("200 OK\nCache-Control: max-age=100\n\n{}", told.load(Ordering::SeqCst)));
    let (mut larder, _) = start(&origin, "");
    let (address, admin, ends) = (larder.address(), larder.admin, AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                let change = changes.fetch_add(1, Ordering::SeqCst) + 1;
                let purge = "POST /purge?url=http://site.test/a&hard\nLarder-Admin: 1\nHost: localhost\nConnection: close";
                // A process that ends leaves a purge without an answer.
                let purged = eventually("an answer", || Client::try_ask(admin, purge));
                assert_eq!(purged.status, 200);
                let read = Client::to(address).ask("GET /a\nConnection: close");
                assert!(read.text().parse::<u64>().unwrap() >= change, "{} after {change}", read.text());
            }
        });
        for _ in 0..5 {
            eventually("an upgrade", || larder.upgrade(&[]).ok());
            larder.wait_for_predecessor();
        }
        ends.store(true, Ordering::Relaxed);
    });
    assert!(changes.load(Ordering::SeqCst) > 5);
}
