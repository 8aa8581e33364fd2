//! Any bytes for a trace, read as any format: no panic, and what is read adds up.

#![no_main]

use std::io::Cursor;

use larder_lab::describe::describe;
use larder_lab::trace::{Format, Options, read_from};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&choice, content)) = input.split_first() else { return };
    // A database would be read through a file, by another project's code.
    let format = Format::ALL.get(usize::from(choice >> 1)).map(|(_, format)| *format);
    let format = format.filter(|format| *format != Format::History);
    let options = Options { format, base_urls: choice & 1 == 1, max_broken_share: 1.0, ..Options::default() };
    let Ok((trace, reading)) = read_from(Cursor::new(content.to_vec()), &options) else { return };
    assert_eq!(trace.len() as u64, reading.kept);
    assert!(!trace.is_empty() && trace.shape().objects as usize <= trace.len());
    assert!(trace.ids().iter().all(|id| *id < trace.shape().objects));
    let found = describe(&trace);
    assert_eq!(found.working_set.iter().map(|window| window.new_objects).sum::<u64>(), found.objects);
});
