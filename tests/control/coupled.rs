//! With complete couplings, no response is stale. With one coupling missing, clients get stale responses, and the cache
//! reports it.

use super::stack::{Mode, Stack};

/// The dependencies of the services: paths and skills contain users.
const COUPLED: &str = "{ users = ['paths', 'skills'] }";
/// The couplings without the dependency of skills.
const FORGOTTEN: &str = "{ users = ['paths'] }";

/// Runs reads and writes with 1, 4, 16 and 64 clients: `LARDER_REQUESTS` in total.
fn nothing_is_stale(mode: Mode) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let requests = number("LARDER_REQUESTS").unwrap_or(4_000);
    let seed = number("LARDER_SEED").unwrap_or(fastrand::u64(..1 << 32));
    println!("LARDER_SEED={seed} LARDER_REQUESTS={requests}");
    let stack = Stack::start(mode, COUPLED);
    let (mut reads, mut writes) = (0, 0);
    for clients in [1, 4, 16, 64] {
        let outcome = stack.work(clients, requests / 4, 0.2, seed + u64::from(clients));
        assert_eq!(outcome.stale, 0, "{mode:?}, {clients} clients, seed {seed}: {:?}", outcome.examples);
        reads += outcome.reads.count();
        writes += outcome.writes.count();
    }
    let kept = stack.cache.stat("hits") + stack.cache.stat("validated");
    let found = stack.validated();
    println!(
        "{mode:?}: {reads} reads, {kept} from the cache, {writes} writes, none stale; the cache says {found}"
    );
    assert!(kept * 20 > reads, "{mode:?}: the cache has answered {kept} of {reads}");
    assert!(found["ok"].as_u64() > Some(0) && found["stale"] == 0, "{mode:?}, seed {seed}: {found}");
}

#[test]
fn nothing_is_stale_where_the_cache_asks() {
    nothing_is_stale(Mode::Always);
}

#[test]
fn nothing_is_stale_where_the_cache_is_told() {
    nothing_is_stale(Mode::Push);
}

#[test]
fn a_forgotten_coupling_is_found() {
    for mode in [Mode::Always, Mode::Push] {
        let stack = Stack::start(mode, FORGOTTEN);
        let outcome = stack.work(4, 3_000, 0.05, 1);
        assert!(outcome.stale > 0, "{mode:?}: no response was stale");
        for (path, stale) in &outcome.examples {
            assert!(path.starts_with("/skills/") && stale.resource.starts_with("users/"), "{path}: {stale}");
        }
        // During the load, no response is stale for long, and each change follows each other one; so the changes are
        // made separately.
        stack.change_users_alone();
        let found = stack.validated();
        assert!(found["stale"].as_u64() > Some(0), "{mode:?}: {found}");
        let stale_routes = found["routes"].as_array().unwrap().iter().filter(|route| route["stale"] != 0);
        assert!(stale_routes.clone().all(|route| route["route"] == "skills"), "{mode:?}: {found}");
        let couplings = stack.tell("/couplings");
        let lines = couplings["config"].as_array().unwrap().iter();
        assert!(
            lines.clone().any(|proposal| proposal["line"].as_str().unwrap().contains("\"skills\"")),
            "{mode:?}: {couplings}"
        );
    }
}
