//! Checks that the shipped traces are read as their README describes them.

use std::path::{Path, PathBuf};

use larder_lab::trace::{Format, Options, read};

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../traces/{name}.oracleGeneral.zst"))
}

#[test]
fn shipped_traces_are_what_their_readme_says() {
    for (name, requests, objects, bytes) in [
        ("adaptsize_web", 66_987, 36_815, 278_854_232),
        ("semicomplete_weblog", 9_581, 1_387, 561_277_763),
        ("cache2k_web07", 76_118, 20_484, 20_484),
        ("cache2k_web12", 95_607, 13_756, 13_756),
    ] {
        let (trace, reading) = read(&shipped(name), &Options::default()).unwrap();
        let shape = trace.shape();
        assert_eq!(
            (trace.len(), shape.objects, trace.distinct_bytes()),
            (requests, objects, bytes),
            "{name}"
        );
        assert_eq!(shape.sized, bytes != u64::from(objects), "{name}");
        assert_eq!((reading.format, reading.notes()), (Format::OracleGeneral, Vec::new()), "{name}");
    }
}

#[test]
fn a_sample_keeps_every_request_of_an_object_or_none() {
    let (whole, _) = read(&shipped("cache2k_web12"), &Options::default()).unwrap();
    let options = Options { sample: 0.1, ..Options::default() };
    let (sample, reading) = read(&shipped("cache2k_web12"), &options).unwrap();
    let share = f64::from(sample.shape().objects) / f64::from(whole.shape().objects);
    assert!((0.09..0.11).contains(&share), "{share}");
    assert_eq!((reading.requests, reading.kept), (whole.len() as u64, sample.len() as u64));
    let counts = |trace: &larder_lab::trace::Trace| {
        let mut counts = vec![0; trace.shape().objects as usize];
        trace.ids().iter().for_each(|&id| counts[id as usize] += 1);
        counts.sort_unstable();
        counts
    };
    let (mut all, kept) = (counts(&whole), counts(&sample));
    // The count of each sampled object must equal that of a distinct object of the trace.
    for count in kept {
        let at = all.binary_search(&count).unwrap();
        all.remove(at);
    }
}
