//! Realistic samples of each format: their requests, their excluded lines, and their broken lines.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use larder_lab::trace::{Field, Format, Options, ReadSummary, Trace, read};
use larder_lab::workload::SentRequest;
use tempfile::TempDir;

const DAY: u64 = 86_400_000_000;

struct File(TempDir);

impl File {
    fn new(content: &[u8]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("trace"), content).expect("a file");
        Self(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("trace")
    }

    fn read(&self, options: &Options) -> Result<(Trace, ReadSummary), String> {
        let shown = self.path().display().to_string();
        read(&self.path(), options).map_err(|error| error.to_string().replace(&shown, "trace"))
    }
}

fn lenient() -> Options {
    Options { max_broken_share: 1.0, ..Options::default() }
}

/// Returns a line for each request: its object, its name, and time in seconds, size and cost.
fn show(trace: &Trace) -> Vec<String> {
    let request = |at: usize| {
        let request = trace.request(at);
        let name = trace.name(request.id).unwrap_or("-");
        let seconds = trace.time(at) as f64 / 1e6;
        format!("{} {name} {seconds} {} {}", request.id, request.size, request.cost)
    };
    (0..trace.len()).map(request).collect()
}

/// Checks the detected format of `text` and its content.
fn check(text: &str, format: Format, requests: &[&str], notes: &[&str]) {
    let (trace, reading) = File::new(text.as_bytes()).read(&lenient()).expect("a trace");
    assert_eq!(reading.format, format, "{text}");
    assert_eq!(show(&trace), requests, "{text}");
    assert_eq!(reading.notes(), notes, "{text}");
}

#[test]
fn keys() {
    check("7\n9\n\n7\r\n", Format::Plain, &["0 - 0 1 0", "1 - 0 1 0", "0 - 0 1 0"], &[]);
    check(
        "http://a/x\n12\nhttp://a/y\n007\nhttp://a/x",
        Format::Plain,
        &["0 http://a/x 0 1 0", "1 - 0 1 0", "2 http://a/y 0 1 0", "3 007 0 1 0", "0 http://a/x 0 1 0"],
        &[],
    );
}

#[test]
fn runs_of_blocks() {
    check(
        "10 2 0 0\n11 1 0 1\n5 0 0 2\n",
        Format::Arc,
        &["0 - 0 1 0", "1 - 0 1 0", "1 - 0 1 0"],
        &["line 3 is broken: a run of 0 blocks, not 1 to 1048576"],
    );
}

#[test]
fn separated_values() {
    check(
        "version,time,op,size,lbn\n1,5633898,2a,512,42932745\n1,5633899.5,2a,1024,42932746\n1,x,2a,512,1\n",
        Format::Csv,
        &["0 - 5633898 512 0", "1 - 5633899.5 1024 0"],
        &["line 4 is broken: 'x' is not a date"],
    );
    let guess =
        |columns| format!("its columns are taken as {columns}; if they are others, name them by --columns");
    let (three, two) = (guess("time,key,size"), guess("key,size"));
    check("1,77,300\n2,78,10\n", Format::Csv, &["0 - 1 300 0", "1 - 2 10 0"], &[&three]);
    check("77;300\n78;10\n", Format::Csv, &["0 - 0 300 0", "1 - 0 10 0"], &[&two]);
    check(
        "url\tbytes\tmethod\nhttp://a/\t5\tGET\n\"http://b/\t2\"\t6\tGET\nhttp://a/\t5\tPUT\n",
        Format::Csv,
        &["0 http://a/ 0 5 0", "1 http://b/\t2 0 6 0"],
        &["left out 1 with a method other than GET"],
    );
    let columns = ["_", "key", "size", "time"].map(|name| name.parse().unwrap()).to_vec();
    let options = Options { columns, ..Options::default() };
    let (trace, _) = File::new(b"x,a,5,9\ny,b,6,9\n").read(&options).unwrap();
    assert_eq!(show(&trace), ["0 a 9 5 0", "1 b 9 6 0"]);
    let wrong = "tme".parse::<Field>().unwrap_err();
    assert_eq!(
        wrong,
        "unknown column 'tme'; known: time timems key host size micros millis seconds method status cache client operation volume _"
    );
}

#[test]
fn squid() {
    check(
        "listening on 127.0.0.1:3128 (forward)\n\
         1286536308.779    180 192.168.0.224 TCP_MISS/200 411 GET http://a/x - DIRECT/10.0.0.1 text/html\n\
         1286536309.001      2 192.168.0.224 TCP_IMS_HIT/304 200 GET http://a/x - NONE/- text/html\n\
         1286536310.000     90 192.168.0.68 TCP_MISS/200 3764 CONNECT a:443 - DIRECT/10.0.0.1 -\n\
         1286536311.000     90 192.168.0.68 TCP_MISS/503 100 GET http://b/ - DIRECT/10.0.0.1 -\n\
         2010/10/08 11:11:50| storeLateRelease: released 0 objects\n",
        Format::Squid,
        &["0 http://a/x 1286536308.779 411 180000", "0 http://a/x 1286536309.001 411 180000"],
        &[
            "left out 1 with a method other than GET",
            "left out 1 with status 503",
            "1 without the object's size, as with status 304: taken from other requests for the same object",
            "line 6 is broken: no '/' where the format has it",
        ],
    );
}

#[test]
fn web_servers() {
    let agent = "\"http://from/\" \"Mozilla/5.0 (\\\"X\\\")\"";
    let line = |request: &str, rest: &str| {
        format!("83.149.9.216 - - [17/May/2015:10:05:03 +0000] \"{request}\" {rest} {agent}\n")
    };
    let text = [
        line("GET /a HTTP/1.1", "304 -"),
        line("GET /a HTTP/1.1", "200 203023"),
        line("GET /b HTTP/1.0", "206 100"),
        line("POST /a HTTP/1.1", "200 17"),
        line("GET /gone HTTP/1.1", "302 0"),
        line("\\x16\\x03\\x01", "400 226"),
        line("GET /a HTTP/1.1", "200 many"),
    ];
    check(
        &text.concat(),
        Format::Ncsa,
        &["0 /a 1431857103 203023 0", "0 /a 1431857103 203023 0", "1 /b 1431857103 100 0"],
        &[
            "left out 2 with a method other than GET",
            "left out 1 with status 302",
            "2 without the object's size, as with status 304: taken from other requests for the same object; unknown for 1 of them",
            "line 7 is broken: 'many' is not a size",
        ],
    );
    check(
        "try: curl -x http://127.0.0.1:3128 http://example.com/\nwww.a:80 10.0.0.1 - ann [17/May/2015:12:05:03 +0200] \"GET / HTTP/1.1\" 200 5\n",
        Format::Ncsa,
        &["0 www.a:80/ 1431857103 5 0"],
        &[],
    );
}

#[test]
fn larder() {
    check(
        "listening on 127.0.0.1:8080 (reverse)\nadmin on http://127.0.0.1:9145/\nstatistics in sqlite:s.db\ntry: curl http://127.0.0.1:8080/\n\
         1970-01-01T00:00:07.000Z 127.0.0.1 GET http://a/x 200 123B 4500us fwd=uri-miss; stored\n\
         Thu, 01 Jan 1970 00:00:08 GMT ::1 GET http://a/x 200 123B 20us hit; ttl=10\n\
         Thu, 01 Jan 1970 00:00:09 GMT ::1 OPTIONS http://a * 200 0B 20us fwd=method\n",
        Format::Larder,
        &["0 http://a/x 7 123 4500", "0 http://a/x 8 123 4500"],
        &["left out 1 with a method other than GET"],
    );
    check(
        "{\"time\":\"1970-01-01T00:00:07.000Z\",\"client\":\"::1\",\"method\":\"GET\",\"url\":\"http://a/x\",\
         \"status\":200,\"bytes\":123,\"micros\":4500,\"cache\":\"fwd=uri-miss; stored\"}\n\
         {\"time\":\"Fri, 02 Jan 1970 00:00:00 GMT\",\"client\":\"::1\",\"method\":\"HEAD\",\"url\":\"http://a/x\",\
         \"status\":200,\"bytes\":0,\"micros\":45,\"cache\":\"hit\"}\n",
        Format::Json,
        &["0 http://a/x 7 123 4500"],
        &["left out 1 with a method other than GET"],
    );
}

#[test]
fn json_lines() {
    let day = DAY as f64 / 1e6;
    check(
        "{\"ts\":86400.25,\"request\":{\"method\":\"GET\",\"host\":\"a\",\"uri\":\"/\\u00e9\"},\"size\":9,\"status\":200,\"duration\":0.5}\n\
         {\"time\":\"1970-01-02T00:00:00Z\",\"key\":\"k\",\"size\":null,\"tags\":[{\"url\":1}]}\n\
         {\"key\":77}\n\
         {\"size\":1}\n\
         {\"key\":\"k\"\n\
         [1]\n",
        Format::Json,
        &[&format!("0 a/\u{e9} {} 9 500000", day + 0.25), &format!("1 k {day} 1 0"), "2 - 0 1 0"],
        &[
            "2 without the object's size, as with status 304: taken from other requests for the same object; unknown for 2 of them",
            "line 4 is broken: no key",
            "line 5 is broken: no JSON object: EOF while parsing an object at line 1 column 10",
            "line 6 is broken: no JSON object: invalid type: sequence, expected an object at line 1 column 0",
        ],
    );
}

#[test]
fn binary_records() {
    let mut header = vec![0; 1024];
    header[..8].copy_from_slice(&0x1234_5678_9abc_def0u64.to_le_bytes());
    header[8..13].copy_from_slice(b"<IQIh");
    header[248..251].copy_from_slice(&[2, 3, 1]);
    header[1000..1008].copy_from_slice(&[4, 0, 0, 0, 18, 0, 0, 0]);
    header[1016..].copy_from_slice(&0x1234_5678_9abc_def0u64.to_le_bytes());
    let record = |time: u32, key: u64, size: u32| {
        [&time.to_le_bytes()[..], &key.to_le_bytes(), &size.to_le_bytes(), &[0, 0]].concat()
    };
    let trace =
        [header.clone(), record(1, 9, 100), record(2, 8, 50), record(3, 9, 100), vec![1, 2, 3]].concat();
    let (trace, reading) = File::new(&trace).read(&lenient()).unwrap();
    assert_eq!(reading.format, Format::Lcs);
    assert_eq!(show(&trace), ["0 - 1 100 0", "1 - 2 50 0", "0 - 3 100 0"]);
    assert_eq!(reading.notes(), ["record 4 is broken: 3 bytes of 18, then the file ends"]);
    header[11] = b'?';
    let error = File::new(&header).read(&lenient()).unwrap_err();
    assert_eq!(error, "cannot read 'trace': its header has a field of type '?'");
}

#[test]
fn lcs_files_of_every_version_of_libcachesim_are_read() {
    const MAGIC: u64 = 0x1234_5678_9abc_def0;
    let large = 5_u64 << 30;
    for (version, length) in [(1, 24), (2, 28), (3, 36), (4, 40), (5, 44), (6, 52), (7, 68), (8, 100_usize)] {
        let mut file = vec![0; 8192];
        file[..8].copy_from_slice(&MAGIC.to_le_bytes());
        file[8..16].copy_from_slice(&u64::to_le_bytes(version));
        file[8184..].copy_from_slice(&MAGIC.to_le_bytes());
        // From version 2 on, there are operations: get, set, read. From version 3 on, sizes have 64 bits.
        for (key, size, operation) in [(9, 100, 1), (8, 70, 3), (9, large, 12)] {
            let mut record = vec![0; length];
            record[0] = 3;
            record[4] = key;
            let width = if version < 3 { 4 } else { 8 };
            record[12..12 + width].copy_from_slice(&u64::to_le_bytes(size)[..width]);
            if version > 1 {
                record[12 + width] = operation;
            }
            file.extend(record);
        }
        let (trace, _) = File::new(&file).read(&Options::default()).expect("records");
        let last = if version < 3 { 1 << 30 } else { large };
        let expected = match version {
            1 => vec!["0 - 3 100 0".to_owned(), "1 - 3 70 0".to_owned(), format!("0 - 3 {last} 0")],
            _ => vec!["0 - 3 100 0".to_owned(), format!("0 - 3 {last} 0")],
        };
        assert_eq!(show(&trace), expected, "version {version}");
    }
}

#[test]
fn browsers() {
    let tables = [
        "CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url TEXT);
         CREATE TABLE moz_historyvisits (id INTEGER PRIMARY KEY, place_id INTEGER, visit_date INTEGER);
         INSERT INTO moz_places VALUES (1, 'https://me:word@a/x?q'), (2, 'HTTP://b/'), (3, 'about:config'), (4, 'file:///x');
         INSERT INTO moz_historyvisits VALUES (1, 2, 2000000), (2, 1, 1000000), (3, 2, NULL), (4, 3, 5), (5, 4, 6);",
        "CREATE TABLE urls (id INTEGER PRIMARY KEY, url TEXT);
         CREATE TABLE visits (id INTEGER PRIMARY KEY, url INTEGER, visit_time INTEGER);
         INSERT INTO urls VALUES (1, 'https://me:word@a/x?q'), (2, 'HTTP://b/'), (3, 'chrome://newtab/'), (4, 'data:x');
         INSERT INTO visits VALUES (1, 2, 11644473602000000), (2, 1, 11644473601000000), (3, 2, NULL), (4, 3, 5), (5, 4, 6);",
    ];
    for sql in tables {
        let file = File::new(b"");
        let browser = rusqlite::Connection::open(file.path()).unwrap();
        // The latest writes of a running browser are in the log beside the database, which is locked.
        browser.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;").unwrap();
        browser.execute_batch(sql).unwrap();
        browser.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE;").unwrap();
        let options = Options { base_urls: true, ..lenient() };
        let (trace, reading) = file.read(&options).unwrap();
        assert_eq!(reading.format, Format::History);
        assert_eq!(show(&trace), ["0 https://a/ 1 1 0", "1 HTTP://b/ 2 1 0"]);
        let notes = ["left out 1 without a URL or a time", "left out 2 with a URL of neither http nor https"];
        assert_eq!(reading.notes(), notes);
    }
    let file = File::new(b"");
    rusqlite::Connection::open(file.path()).unwrap().execute_batch("CREATE TABLE t (x);").unwrap();
    let error = file.read(&lenient()).unwrap_err();
    assert_eq!(error, "cannot read 'trace': a database without the tables of Chrome's or Firefox's history");
}

#[test]
fn packed_files_are_unpacked() {
    let text = b"a\nb\na\n";
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = zstd::encode_all(&text[..], 1).unwrap();
    let mut long = zstd::Encoder::new(Vec::new(), 1).unwrap();
    long.window_log(28).unwrap();
    long.write_all(text).unwrap();
    let long = long.finish().unwrap();
    for packed in [&gzip, &zstd, &long] {
        let (trace, _) = File::new(packed).read(&Options::default()).unwrap();
        assert_eq!(trace.ids(), [0, 1, 0]);
        let cut = File::new(&packed[..packed.len() - 3]).read(&Options::default());
        assert_eq!(cut.unwrap_err(), "cannot read 'trace': it is cut off");
    }
}

#[test]
fn a_hopeless_file_is_one_clear_line() {
    let long_line = [&b"x".repeat(2 << 20)[..], b"\na\n"].concat();
    let table: &[(&[u8], &str)] = &[
        (b"", "it is empty"),
        (b"\n \n", "no requests in it, read as plain"),
        (b"\x7fELF\x02\x01\x01\0\0\0", "its format is unknown; name it, if it is one of "),
        (b"SQLite format 3\0rubbish", "as a database: "),
        (&[0x28, 0xb5, 0x2f, 0xfd, 0xff, 0xff], "it is cut off"),
        (
            b"{\"key\":1}\n{\"key\":2}\n{}\n",
            "1 of 3 lines of json are broken, more than 1%; the first is line 3: no key",
        ),
        (&long_line, "1 of 2 lines of plain are broken, more than 1%; the first is line 1: longer than"),
        (b"{\"key\":1,\"method\":\"PUT\"}\n", "no requests to keep in it: 1 left out, read as json"),
    ];
    for (content, why) in table {
        let error = File::new(content).read(&Options::default()).unwrap_err();
        let expected = format!("cannot read 'trace': {why}");
        assert!(error.starts_with(&expected) && !error.contains('\n'), "{error} instead of {expected}");
    }
    let folder = tempfile::tempdir().unwrap();
    let error = |path: PathBuf| read(&path, &Options::default()).unwrap_err().to_string();
    assert!(error(folder.path().to_owned()).ends_with("it is a directory"));
    assert!(error(folder.path().join("gone")).ends_with("gone': no such file"));
}

#[test]
fn workloads() {
    check(
        "# larder workload 1\n# zipf: and so on\n\
         0 GET /page/1 8123 20000\n\
         1500000 PUT /users/1 10 20000 {\"name\":\"a b\"}\n\
         2000000 GET /page/1 8123 20000\n\
         2000001 GET /page/2 8123\n",
        Format::Workload,
        &["0 /page/1 0 8123 20000", "0 /page/1 2 8123 20000"],
        &[
            "left out 1 with a method other than GET",
            "line 6 is broken: too few words for a line of a workload",
        ],
    );
}

#[test]
fn workloads_are_sent_with_all_that_they_say() {
    let file = File::new(
        b"# larder workload 1\n0 GET /a 1 1\n+Accept: text/html, */*\n+X-Key:7\n5 POST /users 1 1 {\"name\": \"a  b\"}\n\
          6 DELETE /users/1 1 1\n7 GET /a 1 1\n+no colon\n+A b: c\n8 G<T /a 1 1\n9 GET\n",
    );
    let (requests, reading) = larder_lab::trace::requests(&file.path(), &lenient()).unwrap();
    let fields = [("Accept", "text/html, */*"), ("X-Key", "7")];
    let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let sent = |method, url, body| SentRequest { method, url, fields: &[], body };
    let found: Vec<_> = (0..requests.len()).map(|at| requests.get(at)).collect();
    let expected = [
        SentRequest { fields: &fields, ..sent("GET", "/a", "") },
        sent("POST", "/users", "{\"name\": \"a  b\"}"),
        sent("DELETE", "/users/1", ""),
        sent("GET", "/a", ""),
    ];
    assert_eq!(found, expected);
    let notes = [
        "line 8 is broken: a field without a colon",
        "line 9 is broken: 'A b: c' is not a field",
        "line 10 is broken: 'G<T' is not a method",
        "line 11 is broken: too few words for a line of a workload",
    ];
    assert_eq!(reading.notes(), notes);
    let (trace, _) = file.read(&lenient()).unwrap();
    assert_eq!(show(&trace), ["0 /a 0 1 1", "0 /a 0.000007 1 1"]);

    let log = File::new(b"{\"key\":\"http://a/\"}\n{\"key\":\"/b c\\r\\nd\"}\n{\"key\":\"http://a/\"}\n");
    let (requests, _) = larder_lab::trace::requests(&log.path(), &lenient()).unwrap();
    let urls: Vec<_> = (0..requests.len()).map(|at| requests.get(at).url).collect();
    assert_eq!(urls, ["http://a/", "/b%20c%0D%0Ad", "http://a/"]);
    let numbers = larder_lab::trace::requests(&File::new(b"17\n18\n").path(), &lenient()).unwrap_err();
    assert!(numbers.to_string().ends_with("it has numbers for objects, and no urls"), "{numbers}");
}
