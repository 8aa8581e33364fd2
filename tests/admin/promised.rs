//! The guarantee of a purge, under load: the response to a request that is sent after the purge was acknowledged is
//! never one that was stored before it. Several clients read while pages change and are purged with each kind of scope.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fastrand::Rng;
use larder_testkit::{Larder, Origin, seed};

const PAGES: usize = 12;
const CLIENTS: u64 = 3;
const CHANGES: usize = 120;

/// Pages that change.
#[derive(Default)]
struct Pages {
    /// The origin's version of each page.
    versions: [AtomicU64; PAGES],
    /// The oldest version of each page that clients may still get.
    least: [AtomicU64; PAGES],
    reads: AtomicU64,
    hits: AtomicU64,
    /// Reads that returned an older version.
    faults: AtomicU64,
    is_over: AtomicBool,
}

impl Pages {
    fn origin(self: &Arc<Self>) -> Origin {
        let this = Arc::clone(self);
        Origin::by(move |seen| {
            let page: usize = seen.target["/page/".len()..].parse().expect("a number");
            let version = this.versions[page].load(Ordering::SeqCst);
            format!(
                "200 OK\nCache-Control: max-age=100\nETag: \"{version}\"\nCache-Tag: all, t{page}.\nCache-Groups: \"g{page}\"\n\n{version}"
            )
        })
    }

    /// Changes one page and, if `purges`, purges a scope that has at least that page.
    fn change(&self, larder: &Larder, rng: &mut Rng, purges: bool) {
        let page = rng.usize(..PAGES);
        let version = self.versions[page].fetch_add(1, Ordering::SeqCst) + 1;
        let scopes = [
            format!("url=http://site.test/page/{page}"),
            format!("tag=t{page}."),
            format!("tag=none&tag=t{page}."),
            format!("group=g{page}&host=site.test"),
            format!("prefix=http://site.test/page/{page}"),
            "host=site.test".to_owned(),
            "all".to_owned(),
        ];
        let scope = &scopes[rng.usize(..scopes.len())];
        let (effect, count) = (["soft", "hard"][rng.usize(..2)], ["", "&count"][rng.usize(..2)]);
        if purges {
            let request = format!("POST /purge?{scope}&{effect}{count}\nLarder-Admin: 1");
            assert_eq!(larder.ask_admin(&request).status, 200, "{request}");
        }
        self.least[page].fetch_max(version, Ordering::SeqCst);
    }

    fn read(&self, larder: &Larder, seed: u64) {
        let (mut rng, mut client) = (Rng::with_seed(seed), larder.client());
        while !self.is_over.load(Ordering::SeqCst) {
            let page = rng.usize(..PAGES);
            let least = self.least[page].load(Ordering::SeqCst);
            let answer = client.ask(&format!("GET /page/{page}\nHost: site.test"));
            let version: u64 = answer.text().parse().expect("a version");
            self.reads.fetch_add(1, Ordering::SeqCst);
            self.hits.fetch_add(u64::from(answer.is_hit()), Ordering::SeqCst);
            self.faults.fetch_add(u64::from(version < least), Ordering::SeqCst);
        }
    }
}

/// Reads while pages change, and returns the numbers of reads, hits and faults.
fn read_while_pages_change(purges: bool) -> (u64, u64, u64) {
    let seed = seed();
    let pages = Arc::new(Pages::default());
    let origin = pages.origin();
    let larder = Larder::before(&origin);
    std::thread::scope(|scope| {
        for client in 1..=CLIENTS {
            let (pages, larder) = (&pages, &larder);
            scope.spawn(move || pages.read(larder, seed + client));
        }
        let mut rng = Rng::with_seed(seed);
        for change in 0..CHANGES {
            // The clients read between two changes.
            let enough = 8 * change as u64;
            while pages.reads.load(Ordering::SeqCst) < enough {
                std::thread::yield_now();
            }
            pages.change(&larder, &mut rng, purges);
        }
        pages.is_over.store(true, Ordering::SeqCst);
    });
    let get = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
    (get(&pages.reads), get(&pages.hits), get(&pages.faults))
}

#[test]
fn nothing_is_served_that_an_acknowledged_purge_reaches() {
    let (reads, hits, faults) = read_while_pages_change(true);
    println!("{reads} reads, {hits} of them hits");
    assert_eq!(faults, 0);
    assert!(hits > reads / 20, "a checker that has nothing to check: {hits} hits of {reads}");
}

#[test]
fn without_purges_the_checker_finds_what_is_old() {
    let (reads, _, faults) = read_while_pages_change(false);
    assert!(faults > 0, "{reads} reads");
}
