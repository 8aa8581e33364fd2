//! Any bytes as a trace, in any format: no panic, and consistent counts.

#![no_main]

use std::io::Cursor;

use larder_lab::describe::describe;
use larder_lab::trace::{Format, Options, read_from};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&choice, content)) = input.split_first() else { return };
    // The format of databases is left out: it requires a file, and another project's code reads it.
    let format = Format::ALL.get(usize::from(choice >> 1)).copied();
    let format = format.filter(|format| *format != Format::History);
    // Each line of the ARC paper's traces may represent a million requests: valid, but too slow for the fuzzer.
    let may_be_runs = format.is_none_or(|format| format == Format::Arc);
    if may_be_runs && blocks(content) > 50_000 {
        return;
    }
    let options = Options { format, base_urls: choice & 1 == 1, max_broken_share: 1.0, ..Options::default() };
    let Ok((trace, reading)) = read_from(Cursor::new(content.to_vec()), &options) else { return };
    assert_eq!(trace.len() as u64, reading.kept);
    assert!(!trace.is_empty() && trace.shape().objects as usize <= trace.len());
    assert!(trace.ids().iter().all(|id| *id < trace.shape().objects));
    let found = describe(&trace);
    assert_eq!(found.working_set.iter().map(|window| window.new_objects).sum::<u64>(), found.objects);
});

/// Returns the number of requests in a trace whose lines are runs of blocks.
fn blocks(content: &[u8]) -> u64 {
    let count = |line| str::from_utf8(line).ok()?.split_ascii_whitespace().nth(1)?.parse().ok();
    content.split(|byte| *byte == b'\n').filter_map(count).fold(0, u64::saturating_add)
}
