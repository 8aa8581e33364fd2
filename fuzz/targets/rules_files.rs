//! A part of the day, two dates and a time zone, one on each line, and behind them a map: no panic, and a map has the texts
//! of its lines.

#![no_main]

use larder_rules::{MapBy, Moments, UrlMap, normal_path};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut lines = text.splitn(5, '\n');
    let mut next = || lines.next().unwrap_or_default();
    let mut moments = Moments::default();
    let _ = (moments.add_hours(next()), moments.set_from(next()), moments.set_until(next()));
    let zone = next();
    // Other names are read from files.
    if zone.starts_with(['+', '-']) {
        let _ = moments.set_zone(zone);
    }
    for now in [0, 1_800_000_000, u32::MAX] {
        assert!(!(moments.are_none() && moments.contain(now)), "{text}");
        assert!(!(moments.are_over(now) && moments.contain(now)), "{text}");
    }
    let file = next();
    if let Ok(map) = UrlMap::parse("map", file, MapBy::Path) {
        for (path, value) in file.lines().filter_map(|line| line.trim().split_once(char::is_whitespace)) {
            if path.starts_with('/') {
                let found = map.get(&normal_path(path), "").expect("its line");
                assert!(value.contains(found), "{path}");
            }
        }
    }
    if let Ok(map) = UrlMap::parse("map", file, MapBy::Host) {
        assert_eq!(map.get(b"/", ""), None);
    }
});
