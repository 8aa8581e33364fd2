//! Upgrades to newer and older versions, whose parts of the handover have other numbers: what is not understood starts empty
//! alone and is told, and no answer is wrong. The same for damaged parts.

use std::fs;

use larder_testkit::{Answer, Larder, Origin, programs};

use super::{script, serves, start};

const SMALL: usize = 30;
const LARGE: usize = 6;
const ALL: usize = SMALL + LARGE;

/// Returns the content of a page; those of large ones are in memory files.
fn page(target: &str) -> Vec<u8> {
    let len = if target.starts_with("/large") { 150_000 } else { 900 };
    format!("the page at {target}; ").into_bytes().into_iter().cycle().take(len).collect()
}

/// Requests all pages. Returns the number of hits.
fn get_all(larder: &Larder) -> usize {
    let small = (0..SMALL).map(|number| format!("/small/{number}"));
    let targets = small.chain((0..LARGE).map(|number| format!("/large/{number}")));
    let hits = targets.filter(|target| {
        let response = larder.get(target);
        assert!(response.status == 200 && response.body == page(target), "{target}");
        response.is_hit()
    });
    hits.count()
}

/// Upgrades with a change of all parts called `name`.
fn upgrade(larder: &mut Larder, name: &str, change: &str) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let relay = folder.path().join("relay.py");
    fs::write(&relay, include_str!("relay.py")).unwrap();
    let between = format!("exec python3 {} {name} {change}", relay.display());
    let lines = format!("{between} {} \"$@\"", programs::larder().display());
    let program = script(folder.path(), &lines).display().to_string();
    larder.upgrade(&["--binary", &program])
}

#[test]
fn a_part_of_another_version_starts_empty_alone_and_is_told() {
    let origin = Origin::answering(|seen| {
        Answer::with_body("200 OK\nCache-Control: max-age=3600", &page(&seen.target))
    });
    let (mut larder, _) = start(&origin, "");
    for (part, kept) in [
        // The counterpart: nothing is changed.
        ("none", ALL..=ALL),
        ("memory-file", 0..=0),
        ("memory", 0..=0),
        // Without these, stored responses could be outdated.
        ("purges", 0..=0),
        ("hash-keys", ALL..=ALL),
        ("predictions", ALL..=ALL),
        ("doubts", ALL..=ALL),
        ("limits", ALL..=ALL),
        ("hit-for-miss", ALL..=ALL),
        ("histories", ALL..=ALL),
        ("hints", ALL..=ALL),
    ] {
        for change in ["+1", "-1", "rename", "damage"] {
            get_all(&larder);
            let said =
                upgrade(&mut larder, part, change).unwrap_or_else(|why| panic!("{part} {change}: {why}"));
            let told = match change {
                "rename" => format!("{part}-2 (this program does not know it)"),
                "damage" => format!("{part} (it is damaged)"),
                _ => format!("{part} (it has version "),
            };
            // An empty part has no byte to damage.
            assert!(part == "none" || change == "damage" || said.contains(&told), "{part} {change}: {said}");
            let hits = get_all(&larder);
            assert!(kept.contains(&hits), "{part} {change}: {hits} hits; {said}");
            larder.wait_for_predecessor();
            assert_eq!(get_all(&larder), ALL, "{part} {change}");
        }
    }
}

#[test]
fn a_conversation_of_another_version_leaves_the_old_process_serving() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=3600\n\na page");
    let (mut larder, _) = start(&origin, "");
    assert!(serves(&larder));
    let all = ["+1", "-1", "rename", "damage"];
    for (part, changes) in
        [("streams", &all[..]), ("hello", &["rename"]), ("listeners", &all), ("identity", &all)]
    {
        for change in changes {
            let before = larder.id();
            let said = upgrade(&mut larder, part, change).unwrap_err();
            assert_eq!(said.lines().count(), 1, "{part} {change}: {said}");
            assert!(larder.id() == before && larder.get("/page").is_hit(), "{part} {change}");
        }
    }
    larder.upgrade(&[]).unwrap();
    assert!(larder.get("/page").is_hit());
}
