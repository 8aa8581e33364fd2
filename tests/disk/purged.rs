//! Invalidated responses stay invalidated on a disk, after restarts and crashes.

use std::path::Path;

use larder_testkit::{Larder, Origin};

use crate::{config, end, kill, ready, written};

/// Starts an origin of unchanging pages with the group in their path; a POST invalidates the group `users`.
fn origin() -> Origin {
    Origin::by(|seen| match (seen.method.as_str(), seen.field("if-none-match")) {
        ("GET", None) => {
            let group = seen.target.split('/').nth(1).unwrap_or_default();
            format!("200 OK\nCache-Control: max-age=3600\nETag: \"1\"\nCache-Groups: \"{group}\"\n\npage")
        }
        ("GET", Some(_)) => "304 Not Modified\nETag: \"1\"\nCache-Control: max-age=3600".to_owned(),
        _ => "200 OK\nCache-Group-Invalidation: \"users\"".to_owned(),
    })
}

/// Starts a proxy that has a page of each of two groups on its disk.
fn filled(directory: &Path, origin: &Origin) -> Larder {
    let larder = Larder::start(&config(directory, origin, ""));
    larder.get("/users/1");
    larder.get("/feeds/1");
    written(&larder, 2);
    larder
}

#[test]
fn an_invalidation_outlives_an_orderly_end_and_a_crash() {
    for stop in [end, kill] {
        let (directory, origin) = (tempfile::tempdir().unwrap(), origin());
        let larder = filled(directory.path(), &origin);
        assert_eq!(larder.client().ask("POST /users").status, 200);
        stop(larder);
        let larder = Larder::start(&config(directory.path(), &origin, ""));
        ready(&larder);
        assert!(larder.get("/feeds/1").is_hit());
        let invalid = larder.get("/users/1");
        assert_eq!(invalid.cache(), "fwd=stale; fwd-status=304; detail=invalidated");
        assert_eq!((invalid.text(), origin.count()), ("page", 4));
    }
}

#[test]
fn a_corrupt_purge_journal_causes_validations_and_nothing_else() {
    let (directory, origin) = (tempfile::tempdir().unwrap(), origin());
    let larder = filled(directory.path(), &origin);
    larder.ask("POST /users");
    end(larder);
    std::fs::write(directory.path().join("purges"), "nonsense").unwrap();
    let larder = Larder::start(&config(directory.path(), &origin, ""));
    ready(&larder);
    larder.wait_for_log("purges");
    for path in ["/feeds/1", "/users/1"] {
        assert_eq!(larder.get(path).cache(), "fwd=stale; fwd-status=304; detail=invalidated");
        assert!(larder.get(path).is_hit());
    }
    end(larder);
    let larder = Larder::start(&config(directory.path(), &origin, ""));
    ready(&larder);
    larder.ask("POST /users");
    assert!(!larder.get("/users/1").is_hit(), "it is kept again");
}

#[test]
fn a_change_of_a_url_reaches_all_tenants_also_after_a_restart() {
    for stop in [end, kill] {
        let (directory, origin) = (tempfile::tempdir().unwrap(), origin());
        let config = config(directory.path(), &origin, "") + "[[site.rule]]\nkey_fields = 'X-Tenant'\n";
        let ask = |larder: &Larder, path: &str, tenant: &str| {
            larder.ask(&format!("GET {path}\nX-Tenant: {tenant}")).is_hit()
        };
        let larder = Larder::start(&config);
        for (path, tenant) in [("/a", "1"), ("/a", "2"), ("/b", "1")] {
            assert!(!ask(&larder, path, tenant) && ask(&larder, path, tenant));
        }
        written(&larder, 3);
        larder.ask("POST /a\nX-Tenant: 3");
        stop(larder);
        let larder = Larder::start(&config);
        ready(&larder);
        let hits = [("/a", "1"), ("/a", "2"), ("/b", "1")].map(|(path, tenant)| ask(&larder, path, tenant));
        assert_eq!(hits, [false, false, true]);
    }
}
