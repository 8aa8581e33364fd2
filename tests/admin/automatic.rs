//! `auto = "policy"`: a running proxy chooses its policy by what its shadows would have done. Hours pass by a clock that the test sets.

use std::fs;
use std::path::Path;

use larder_testkit::{Larder, Origin, eventually, site};
use tempfile::TempDir;

/// The responses that fit, and the requests in a window of twenty minutes.
const ENTRIES: usize = 100;
const REQUESTS: usize = 450;
const WINDOW: u32 = 1_200;
/// The log of a window, and of a change of the policy.
const COMPARED: &str = "policies were compared: ";
const CHANGED: &str = "memory runs under";

/// A proxy under LRU and its clock.
struct Hours {
    larder: Larder,
    origin: Origin,
    folder: TempDir,
    /// The time that the clock is ahead, in seconds.
    ahead: u32,
    windows: usize,
}

impl Hours {
    fn start() -> Self {
        let origin = Origin::always("200 OK\nCache-Control: max-age=31536000\n\npage");
        let folder = tempfile::tempdir().expect("a folder");
        let clock = folder.path().join("clock");
        let memory = format!("[memory]\nentries = {ENTRIES}\npolicy = 'lru'\nauto = 'policy'\n");
        let environment =
            [("LARDER_CLOCK_SKEW", clock.as_path()), ("LARDER_LOG", Path::new("info,larder_proxy=debug"))];
        let larder = Larder::start_in(&format!("{memory}{}", site(&[&origin], "")), &environment);
        let mut hours = Self { larder, origin, folder, ahead: 0, windows: 0 };
        // The first window begins soon after the start.
        eventually("a window", || {
            hours.pass();
            (!hours.larder.logged(COMPARED).is_empty()).then_some(())
        });
        hours
    }

    fn pass(&mut self) {
        self.ahead += WINDOW;
        let [new, clock] = ["new", "clock"].map(|name| self.folder.path().join(name));
        fs::write(&new, self.ahead.to_string()).expect("written");
        fs::rename(&new, &clock).expect("renamed");
    }

    /// Requests the pages of a window, and waits until policies have been compared by them. Returns the changes up to now.
    fn window(&mut self, page: impl Fn(usize) -> usize) -> Vec<String> {
        let first = self.windows * REQUESTS;
        (first..first + REQUESTS).for_each(|at| _ = self.larder.get(&format!("/{}", page(at))));
        // Shadows see what is queued.
        self.larder.ask_admin("GET /advise");
        let before = self.larder.logged(COMPARED).len();
        self.pass();
        self.windows += 1;
        eventually("a comparison", || (self.larder.logged(COMPARED).len() > before).then_some(()));
        self.larder.logged(CHANGED)
    }

    /// Goes on until the policy has changed so often, for at most so many windows.
    fn until_changed(&mut self, times: usize, most: usize, page: impl Fn(usize) -> usize) -> String {
        let changes = (0..most).map(|_| self.window(&page)).find(|changes| changes.len() == times);
        changes.and_then(|mut changes| changes.pop()).expect("another policy")
    }

    fn policy(&self) -> String {
        self.larder.stats()["policy"].as_str().expect("a policy").to_owned()
    }
}

/// More pages in turn than fit, of which LRU never has the next one.
fn in_turn(at: usize) -> usize {
    at % (ENTRIES + ENTRIES / 2)
}

#[test]
fn auto_changes_the_policy_of_a_proxy_with_its_contents() {
    let mut hours = Hours::start();
    let change = hours.until_changed(1, 60, in_turn);
    let (policy, passed) = (hours.policy(), hours.windows);
    assert!(change.contains(&format!("memory runs under {policy} instead: it hits ")), "{change}");
    assert!(change.ends_with(" points more than lru") && change.contains(" +-"), "{change}");
    assert!(policy != "lru" && passed >= 3, "{policy} after {passed} windows");
    assert_eq!(hours.larder.stats()["policy_of_config"], "lru");
    // What was stored last is still there. A part of the room is for responses in progress.
    let (asked, next) = (hours.origin.count(), hours.windows * REQUESTS);
    (next - ENTRIES / 2..next).for_each(|at| _ = hours.larder.get(&format!("/{}", in_turn(at))));
    assert_eq!(hours.origin.count(), asked);
}

#[test]
fn auto_keeps_the_policy_where_everything_fits() {
    let mut hours = Hours::start();
    for _ in 0..6 {
        assert_eq!(hours.window(|at| at % ENTRIES), Vec::<String>::new());
    }
    assert_eq!(hours.policy(), "lru");
}
