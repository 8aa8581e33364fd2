//! A backend that commits a change when the test allows it, after the cache or the gateway has timed out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use larder_testkit::{Answer, Gate, Origin, Seen, eventually, locked};

/// Users and paths, each with a version; the content of a path includes its user's version.
#[derive(Clone, Default)]
pub(crate) struct Data(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    versions: HashMap<String, u32>,
    /// The gates of held changes, by the names of the changes.
    gates: HashMap<String, Gate>,
    /// The number of changes that were held and have been committed.
    committed: u32,
}

/// The versions of a user and of a path.
pub(crate) type Versions = (u32, u32);

impl Data {
    /// Starts a backend that serves the data. A change with a field `Hold` waits until the test [commits](Self::commit)
    /// it.
    pub(crate) fn origin(&self, answer: &'static str) -> Origin {
        let data = self.clone();
        Origin::answering(move |seen| match seen.method.as_str() {
            "GET" | "HEAD" => Answer::with_body(answer, data.content(&seen.target).as_bytes()),
            _ => data.change(seen),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.0)
    }

    fn change(&self, seen: &Seen) -> Answer {
        if let Some(name) = seen.field("hold") {
            let gate = self.state().gates.entry(name.to_owned()).or_default().clone();
            gate.pass();
        }
        let mut state = self.state();
        *state.versions.entry(seen.target.clone()).or_default() += 1;
        state.committed += u32::from(seen.field("hold").is_some());
        Answer::with_body("200 OK", b"")
    }

    fn content(&self, target: &str) -> String {
        let (user, path) = self.versions(target);
        format!("{user} {path}")
    }

    /// Returns the current versions of `target`.
    pub(crate) fn versions(&self, target: &str) -> Versions {
        let state = self.state();
        let of = |target: &str| state.versions.get(target).copied().unwrap_or_default();
        match target.strip_prefix("/paths/") {
            Some(id) => (of(&format!("/users/{id}")), of(target)),
            None => (of(target), 0),
        }
    }

    /// Lets the backend commit the change called `name`, and waits until it is committed.
    pub(crate) fn commit(&self, name: &str) {
        let before = self.state().committed;
        self.state().gates.entry(name.to_owned()).or_default().open();
        eventually("the commit", || (self.state().committed > before).then_some(()));
    }
}

/// Returns the versions in the content of a response.
pub(crate) fn shown(text: &str) -> Versions {
    let (user, path) = text.split_once(' ').unwrap_or_else(|| panic!("'{text}' is not of the backend"));
    (user.parse().expect("a number"), path.parse().expect("a number"))
}
