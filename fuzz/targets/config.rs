//! Any text as a config: no panic, and each problem is one line with the file's name.

#![no_main]

use libfuzzer_sys::fuzz_target;

/// The kernel's directories, which the text may not refer to: reading them takes long or does not end.
const OUTSIDE: [&str; 3] = ["/dev", "/proc", "/sys"];

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if OUTSIDE.iter().any(|path| text.contains(path)) {
        return;
    }
    for problem in larder::problems("larder.toml", text) {
        assert!(problem.starts_with("larder.toml") && !problem.contains('\n'), "{problem}");
    }
});
