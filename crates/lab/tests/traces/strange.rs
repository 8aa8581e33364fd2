//! Robustness: for any content of a file, reading it ends with a consistent trace, or with an error of one line.

use std::io::Cursor;

use larder_lab::describe::describe;
use larder_lab::trace::{Format, Options, read_from};
use proptest::prelude::*;
use proptest::sample::Index;

/// A short sample of each format, to be corrupted.
const SAMPLES: &[&[u8]] = &[
    b"http://a/x\n12\nhttp://a/y\n12\n",
    b"10 2 0 0\n11 1 0 1\n",
    b"time,key,size\n1.5,a,5\n2,\"b,\"\"c\",6\n",
    b"1286536308.779 180 10.0.0.1 TCP_MISS/200 411 GET http://a/x - DIRECT/10.0.0.1 text/html\n",
    b"a:80 10.0.0.1 - - [17/May/2015:10:05:03 +0000] \"GET /a HTTP/1.1\" 206 17 \"-\" \"X \\\"Y\\\"\"\n",
    b"Thu, 01 Jan 1970 00:00:07 GMT ::1 GET http://a/x 304 123B 4500us fwd=stale\n",
    b"{\"ts\":1.5,\"request\":{\"host\":\"a\",\"uri\":\"/\\u00e9\"},\"size\":9,\"status\":200,\"duration\":0.5}\n",
    b"#Fields: date time cs-method cs-uri-stem sc-status sc-bytes time-taken\n2024-03-01 10:00:00 GET /a 200 5 0.1\n",
    b"Feb  6 12:14:14 h haproxy[1]: ::1:3 [06/Feb/2009:12:14:14.655] in s/srv 1/0/3/6/9 200 27 - - ---- 1/1 0/0 \"GET /a HTTP/1.1\"\n",
    b"o b [06/Feb/2019:00:01:57 +0000] ::1 r i REST.GET.OBJECT k \"GET /b/k\\xc3 HTTP/1.1\" 206 - 10 44 41 28 \"-\" \"S\"\n",
    b"\xf0\xde\xbc\x9a\x78\x56\x34\x12<IQIhdfbBc\0",
    b"\x28\xb5\x2f\xfd\x04\x00\x11\x00\x00a\n",
    b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
];

fn check(content: Vec<u8>, options: &Options) {
    let Ok((trace, reading)) = read_from(Cursor::new(content), options) else { return };
    assert_eq!(trace.len() as u64, reading.kept);
    assert!(trace.ids().iter().all(|id| *id < trace.shape().objects));
    let found = describe(&trace);
    assert_eq!(found.working_set.iter().map(|window| window.new_objects).sum::<u64>(), found.objects);
    assert!(reading.notes().iter().all(|note| !note.contains('\n')));
}

proptest! {
    #[test]
    fn spoilt_samples_are_read_or_refused(
        sample in prop::sample::select(SAMPLES),
        spoilt in prop::collection::vec((any::<Index>(), any::<u8>()), 0..6),
        copies in 1..4usize,
        format in prop::option::of(prop::sample::select(Format::ALL.to_vec())),
        base_urls: bool,
    ) {
        let mut content = sample.repeat(copies);
        for (place, byte) in spoilt {
            let place = place.index(content.len());
            content[place] = byte;
        }
        check(content, &Options { format, base_urls, max_broken_share: 1.0, ..Options::default() });
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        content in prop::collection::vec(any::<u8>(), 0..2000),
        format in prop::option::of(prop::sample::select(Format::ALL.to_vec())),
    ) {
        check(content, &Options { format, max_broken_share: 1.0, ..Options::default() });
    }
}
