//! The page of formats: each of its examples is detected and read as it says.

use std::io::Cursor;

use larder_lab::trace::{Format, Options, ReadSummary, Trace, read_from};

const PAGE: &str = include_str!("../../../../docs/traces.md");

/// An example of the page: the title of its section with the format, its lines, and the first request in them.
struct Example {
    title: &'static str,
    format: &'static str,
    lines: &'static str,
    request: &'static str,
}

fn example(section: &'static str) -> Option<Example> {
    let (title, rest) = section.split_once('\n')?;
    let (_, format) = title.strip_suffix("`)")?.split_once("(`")?;
    let (_, block) = rest.split_once("```")?;
    let (_, block) = block.split_once('\n')?;
    let (lines, after) = block.split_once("```")?;
    let (_, request) = after.split_once("Read as ")?;
    Some(Example { title, format, lines, request: request.trim_end().strip_suffix('.')? })
}

fn examples() -> Vec<Example> {
    PAGE.split("\n### ")
        .skip(1)
        .map(|section| example(section).unwrap_or_else(|| panic!("{section}")))
        .collect()
}

fn read(text: &str, options: &Options) -> Result<(Trace, ReadSummary), String> {
    read_from(Cursor::new(text.as_bytes().to_vec()), options).map_err(|error| error.to_string())
}

/// Returns the keys and sizes of the requests in `text`, and the notes.
fn requests(text: &str, options: &Options) -> (Vec<(String, u64)>, Vec<String>) {
    let (trace, reading) = read(text, options).unwrap_or_else(|why| panic!("{why}: {text}"));
    let request = |at: usize| {
        let request = trace.request(at);
        (
            trace.name(request.id).map_or_else(|| format!("number {}", request.id), str::to_owned),
            trace.size(at),
        )
    };
    ((0..trace.len()).map(request).collect(), reading.notes())
}

fn keys(text: &str) -> Vec<String> {
    requests(text, &Options::default()).0.into_iter().map(|(key, _)| key).collect()
}

#[test]
fn each_example_of_the_page_is_read_as_it_says() {
    for Example { title, format, lines, request } in examples() {
        let (trace, reading) =
            read(lines, &Options::default()).unwrap_or_else(|why| panic!("{title}: {why}"));
        let first = trace.request(0);
        let key = trace.name(first.id).map_or("number 110765".to_owned(), |name| format!("`{name}`"));
        let found = format!("{key}, {} bytes, {} us", trace.size(0), first.cost);
        assert_eq!((reading.format.name(), &*found), (format, request), "{title}");
    }
}

#[test]
fn the_page_has_every_format() {
    let table = PAGE.split("\n\n").find(|part| part.starts_with("| format |")).expect("the table");
    for format in Format::ALL {
        assert!(table.contains(&format!("`{format}`")), "{format} is not in the table of docs/traces.md");
    }
    let shown: Vec<_> = examples().iter().map(|example| example.format).collect();
    // Records and databases are no lines, and a pattern is the user's.
    let binary = ["lcs", "history", "vscsi", "oraclegeneral", "custom"];
    let missing = Format::ALL
        .map(Format::name)
        .into_iter()
        .filter(|name| !shown.contains(name) && !binary.contains(name));
    assert_eq!(missing.count(), 0, "{shown:?}");
}

#[test]
fn tables_separated_by_spaces_are_read_by_columns() {
    let webcachesim = "1 7 120\n2 8 64\n2 7 120\n";
    let (found, notes) = requests(webcachesim, &Options::default());
    assert_eq!(found.iter().map(|(_, size)| *size).collect::<Vec<_>>(), [120, 64, 120]);
    assert_eq!(notes, ["its columns are taken as time,key,size; if they are others, name them by --columns"]);
    let columns = larder_lab::trace::columns("size,_,key").unwrap();
    let (found, notes) = requests("120 1 a\n64 2 b\n", &Options { columns, ..Options::default() });
    assert_eq!((found, notes.len()), (vec![("a".to_owned(), 120), ("b".to_owned(), 64)], 0));
    // Not runs of blocks: the fourth number does not count the lines.
    assert_eq!(requests("1 3 10 1\n2 4 20 1\n3 5 30 1\n3 3 10 1\n", &Options::default()).0.len(), 4);
}

#[test]
fn doubtful_files_are_refused_with_what_makes_them_clear() {
    let ascending: String = (0..20).map(|at| format!("{at},{}\n", at * 7 % 5)).collect();
    let times: String = (0..20).map(|at| format!("k{},{}\n", at % 3, 1_700_000_000 + at)).collect();
    let archive = format!("trace.csv{}ustar\u{0}00", "\u{0}".repeat(248));
    for (text, hint) in [
        ("The quick brown fox\njumps over the lazy dog\n", "--log-format"),
        ("1286536308 [a] GET /x sent 200\n1286536309 [b] GET /y sent 200\n", "--log-format"),
        ("timestamp,contentHash,status\n1,a,200\n2,b,200\n", "--columns"),
        (&*ascending, "--columns time,key"),
        ("9 a 1\n7 b 2\n8 c 3\n1 d 4\n", "--columns"),
        ("a,b\nc,d\ne,f\n", "--columns"),
        ("0,R,7,4096,1577808000000626\n0,R,9,4096,1577808000000687\n", "has operations"),
        ("{\"colour\":\"red\"}\n{\"colour\":\"blue\"}\n", "known as the key"),
        ("[\n  {\"url\": \"/a\"}\n]\n", "an object a line"),
        ("{\"url\":\"/a\",\"time\":\"03/01/2024 11:00\"}\n", "'03/01/2024 11:00' is not a date"),
        (&*times, "--columns key,time"),
        ("BZh91AY", "bzip2 -dc"),
        ("PK\u{3}\u{4}", "ZIP archive"),
        (&*archive, "tar -xO"),
        ("\u{feff}", "it is empty"),
    ] {
        let why = read(text, &Options::default()).map(|(trace, _)| trace.len()).unwrap_err();
        assert!(why.contains(hint) && !why.contains('\n'), "{why}");
    }
    let utf16: Vec<u8> = "\u{feff}/a\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let why = read_from(Cursor::new(utf16), &Options::default()).unwrap_err();
    assert!(why.to_string().contains("UTF-8"), "{why}");
    assert_eq!(requests("b\na\nb\n", &Options::default()).1, ["each line is taken as a key"]);
}

#[test]
fn disk_traces_are_read_with_the_times_of_windows() {
    let columns = larder_lab::trace::columns("msr").unwrap();
    let lines = "128166372003061629,hm,1,Read,383496192,32768,413\n128166372016382155,hm,1,Write,310365184,4096,512\n";
    let (trace, _) = read(lines, &Options { columns, ..Options::default() }).unwrap();
    assert_eq!((trace.len(), trace.size(0), trace.time(0)), (1, 32_768, 1_172_163_600_306_162));
}

#[test]
fn equal_blocks_of_two_volumes_are_two_objects() {
    let columns = larder_lab::trace::columns("spc").unwrap();
    let lines = "0,512,4096,R,0.5\n1,512,4096,r,0.6\n0,512,4096,W,0.7\n0,512,4096,R,0.8\n";
    let (trace, _) = read(lines, &Options { columns, ..Options::default() }).unwrap();
    assert_eq!(trace.ids(), [0, 1, 0]);
}

#[test]
fn operations_of_object_stores_are_read_by_their_names() {
    let columns = larder_lab::trace::columns("ibm").unwrap();
    let ibm = "1 REST.PUT.OBJECT a 7\n2 REST.GET.OBJECT a 7 0 6\n1503 REST.HEAD.OBJECT b 9\n4 REST.DELETE.OBJECT b\n";
    let options = Options { columns, ..Options::default() };
    let (found, _) = requests(ibm, &options);
    assert_eq!(found, [("a".to_owned(), 7), ("b".to_owned(), 9)]);
    let (trace, _) = read(ibm, &options).unwrap();
    assert_eq!(trace.times(), Some(&[2_000, 1_503_000][..]), "in microseconds");
}

#[test]
fn gets_that_missed_have_the_size_of_later_ones() {
    let twitter = "0,k,1,0,1,get,0\n0,k,1,500,1,set,9\n1,k,1,500,1,get,0\n2,gone,4,0,1,get,0\n";
    let (found, _) = requests(twitter, &Options::default());
    assert_eq!(found.iter().map(|(_, size)| *size).collect::<Vec<_>>(), [500, 500, 0]);
}

#[test]
fn numbers_with_exponents_keep_their_power_of_ten() {
    let line = "{\"key\":\"k\",\"time\":1.5e3,\"duration\":9.5e-05,\"size\":1.024e3}\n";
    let (trace, _) = read(line, &Options::default()).unwrap();
    assert_eq!((trace.time(0), trace.request(0).cost, trace.size(0)), (1_500_000_000, 95, 1_024));
    let (trace, _) = read("time,key,seconds,size\n2e0,k,5E-6,7.0\n", &Options::default()).unwrap();
    assert_eq!((trace.time(0), trace.request(0).cost, trace.size(0)), (2_000_000, 5, 7));
}

#[test]
fn times_of_this_century_tell_their_unit() {
    for time in
        ["1700000000", "1700000000000", "1700000000000000", "1700000000000000000", "1700000000000.4e0"]
    {
        let (trace, _) = read(&format!("time,key,size\n{time},k,5\n"), &Options::default()).unwrap();
        assert_eq!(trace.time(0) / 1_000, 1_700_000_000_000, "{time}");
    }
}

#[test]
fn dates_are_read_in_the_forms_of_many_servers() {
    for date in [
        "10/Oct/2000:13:55:36 -0700",
        "10/Oct/2000:13:55:36.000 -0700",
        "10/Oct/2000:13:55:36 -07:00",
        "2000-10-10T20:55:36Z",
        "2000-10-10 20:55:36 UTC",
        "2000-10-10T22:55:36+02:00[Europe/Berlin]",
    ] {
        let log = format!("::1 - - [{date}] \"GET /a HTTP/1.0\" 200 5\n");
        let json = format!("{{\"url\":\"/a\",\"time\":\"{date}\"}}\n");
        // The time zone in brackets would end the date of a log.
        for text in [log, json].into_iter().skip(usize::from(date.ends_with(']'))) {
            let (trace, _) = read(&text, &Options::default()).unwrap_or_else(|why| panic!("{why}: {text}"));
            assert_eq!(trace.time(0), 971_211_336_000_000, "{text}");
        }
    }
    let log = "#Date: 2000-10-10 20:00:00\n#Fields: time cs-uri-stem\n20:55:36 /a\n";
    assert_eq!(read(log, &Options::default()).unwrap().0.time(0), 971_211_336_000_000);
}

#[test]
fn names_are_found_behind_a_mark_of_byte_order_or_of_comments() {
    for begin in ["\u{feff}", "# ", "#", "# from a.test\n#"] {
        let text = format!("{begin}key,time,size\nk,1,5\n");
        assert_eq!(requests(&text, &Options::default()).0, [("k".to_owned(), 5)], "{text}");
    }
    let text = "# block_id io_offset io_size op_time op_name\n17 0 4096 1e3 1\n";
    assert_eq!(requests(text, &Options::default()).0, [("number 0".to_owned(), 4096)]);
}

#[test]
fn sites_without_ports_stay_apart() {
    let line =
        |before: &str| format!("{before} - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.0\" 200 5\n");
    assert_eq!(keys(&[line("a.test ::1"), line("b.test ::1")].concat()), ["a.test/a", "b.test/a"]);
    let addresses = [line("[2001:db8::1]:443 ::1"), line("[2001:db8::2]:443 ::1")].concat();
    assert_eq!(keys(&addresses), ["[2001:db8::1]:443/a", "[2001:db8::2]:443/a"]);
    let user = "10.0.0.1 - ann lee [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.0\" 200 5\n";
    assert_eq!(keys(user), ["/a"]);
}

#[test]
fn requests_with_backslashes_end_at_their_quotation_marks() {
    let line =
        |request: &str| format!("::1 - - [10/Oct/2000:13:55:36 -0700] \"{request}\" 200 5 \"-\" \"agent\"\n");
    for (request, key) in [
        (r"GET /a\\", r"/a\"),
        (r"GET /a\", r"/a\"),
        (r#"GET /a\"b HTTP/1.1"#, r#"/a"b"#),
        (r"GET /a\xC3\xA9 HTTP/1.1", "/a\u{e9}"),
        (r"GET /a\xff\x20 HTTP/1.1", "/a%ff%20"),
        ("GET /a b HTTP/1.1", "/a b"),
    ] {
        assert_eq!(keys(&line(request)), [key], "{request}");
    }
    let latin = b"::1 - - [10/Oct/2000:13:55:36 -0700] \"GET /caf\xe9 HTTP/1.1\" 200 5\n";
    let (trace, _) = read_from(Cursor::new(latin.to_vec()), &Options::default()).unwrap();
    assert_eq!(trace.name(0), Some("/caf%e9"));
}

#[test]
fn a_pattern_reads_escapes_and_marks_in_values() {
    let format = "%h %t \"%r\" %>s %b \"%{User-Agent}i\" \"%{Host}i\"";
    let options = Options { log_format: Some(format.parse().unwrap()), ..Options::default() };
    let line =
        "::1 [10/Oct/2000:13:55:36 -0700] \"GET /a\\xc3\\xa9 HTTP/1.1\" 200 5 \"ag\"ent\" \"a.test\"\n";
    assert_eq!(requests(line, &options).0, [("a.test/a\u{e9}".to_owned(), 5)]);
}

#[test]
fn a_url_says_more_than_the_number_of_its_request() {
    for (text, expected) in [
        ("{\"id\":\"1\",\"url\":\"/a\"}\n{\"url\":\"/a\",\"id\":\"2\"}\n", ["/a", "/a"]),
        (
            "{\"uri\":\"/a\",\"request_uri\":\"/a?1\"}\n{\"request_uri\":\"/a?2\",\"uri\":\"/a\"}\n",
            ["/a?1", "/a?2"],
        ),
        ("id,url,size\n1,/a,5\n2,/a,5\n", ["/a", "/a"]),
    ] {
        assert_eq!(keys(text), expected, "{text}");
    }
}

#[test]
fn the_size_of_a_request_is_not_that_of_its_response() {
    let kong = "{\"request\":{\"uri\":\"/a\",\"size\":100},\"response\":{\"status\":200,\"size\":\"777\"}}\n";
    assert_eq!(requests(kong, &Options::default()).0, [("/a".to_owned(), 777)]);
    let traefik = "{\"ClientAddr\":\"::1\",\"RequestHost\":\"a.test\",\"RequestPath\":\"/a\",\"DownstreamStatus\":200,\
                   \"DownstreamContentSize\":77,\"Duration\":1500000}\n";
    let (trace, _) = read(traefik, &Options::default()).unwrap();
    assert_eq!((trace.name(0), trace.size(0), trace.request(0).cost), (Some("a.test/a"), 77, 1_500));
}

#[test]
fn an_object_has_its_own_size_where_a_line_lacks_it() {
    let numbers = "time,key,objectSize,responseSize\n1,17,70000,1000\n2,17,,\n3,18,5,5\n";
    let (found, notes) = requests(numbers, &Options::default());
    assert_eq!(found.into_iter().map(|(_, size)| size).collect::<Vec<_>>(), [70_000, 70_000, 5]);
    assert!(notes.len() == 1 && notes[0].ends_with("for the same object"), "{notes:?}");
    let notes = requests("time,key,size\n1,a,5\n2,b,\n", &Options::default()).1;
    assert!(
        notes[0].starts_with("1 without the object's size") && notes[0].ends_with("unknown for 1 of them"),
        "{notes:?}"
    );
    assert!(requests("key,time\na,1\nb,2\n", &Options::default()).1.is_empty());
}

#[test]
fn requests_that_a_server_could_not_read_do_not_spoil_its_log() {
    let s3 = "o b [06/Feb/2019:00:01:57 +0000] ::1 r i REST.GET.OBJECT k \"GET /b/k HTTP/1.1\" 200 - 10 44 41 28 \"-\" \"S\"\n\
              o b [06/Feb/2019:00:01:57 +0000] - r i S3.EXPIRE.OBJECT k \"-\" - - - - - - \"-\" \"S\"\n";
    let acl = "o b [06/Feb/2019:00:01:57 +0000] ::1 r i REST.GET.ACL k \"GET /b/k?acl HTTP/1.1\" 200 - 10 - 41 28 \"-\" \"S\"\n";
    assert_eq!(keys(&[s3, acl].concat()), ["b/k"]);
    // A `+`: the response had not ended when the line was written.
    let haproxy = |request, status| {
        format!(
            "::1:3 [06/Feb/2009:12:14:14.655] in s/srv 1/0/3/6/+9 {status} 27 - - ---- 1/1 0/0 \"{request}\"\n"
        )
    };
    let early = haproxy("GET /a HTTP/1.1", 200).replace(" 27 ", " +27 ");
    assert_eq!(requests(&early, &Options::default()).0, [("/a".to_owned(), 1)]);
    for log in [s3.to_owned(), [haproxy("GET /a HTTP/1.1", 200), haproxy("<BADREQ>", 400)].concat()] {
        let (found, notes) = requests(&log, &Options::default());
        assert_eq!((found.len(), notes), (1, vec!["left out 1 without a URL or a time".to_owned()]), "{log}");
    }
}

#[test]
fn quotation_marks_hide_no_lines_and_no_words() {
    let lenient = Options { max_broken_share: 1.0, ..Options::default() };
    let (found, notes) = requests("time,key,size\n1,a,5\n2,\"b,6\n3,c,7\n", &lenient);
    assert_eq!(found, [("a".to_owned(), 5)]);
    assert_eq!(
        notes,
        [
            "line 3 is broken: in a quotation of several lines",
            "line 4 is broken: in a quotation of several lines"
        ]
    );
    let proxy = "#Fields: cs(User-Agent) cs-method cs-uri-scheme cs-host cs-uri-path sc-status sc-bytes\n\
                 \"Mozilla/5.0 (X)\" GET http a.test /a 200 5\n";
    assert_eq!(requests(proxy, &lenient).0, [("http://a.test/a".to_owned(), 5)]);
}

#[test]
fn words_before_a_client_are_no_host_unless_they_name_one() {
    let line = |before: &str| format!("{before} [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.0\" 200 5\n");
    for (before, key) in [
        ("a.test ::1 - -", "a.test/a"),
        ("a.test ::1 - first last", "a.test/a"),
        ("::1 - first last", "/a"),
        ("192.0.2.1, 10.0.0.1 - -", "/a"),
        ("192.0.2.1, 10.0.0.1, 10.0.0.2 - first last", "/a"),
        ("2010-10-08T11:11:48.779123456Z ::1 - -", "/a"),
    ] {
        assert_eq!(keys(&line(before)), [key], "{before}");
    }
    for before in ["of four words each is the", "one of many words before ::1 - -"] {
        assert!(read(&line(before), &Options::default()).is_err(), "{before}");
    }
}

#[test]
fn lines_that_look_like_others_are_refused_with_a_remedy() {
    for (line, remedy) in [
        ("HIT|200|1507167062421|412|390|::1|-|https://a.test/x|WA|Mozilla/5.0|322b|DE\n", "--columns"),
        (
            "{\"log\":\"::1 - - [10/Oct/2000:13:55:36 -0700] \\\"GET /a HTTP/1.0\\\" 200 5\\n\"}\n",
            "jq -j .log",
        ),
    ] {
        let why = read(&line.repeat(3), &Options::default()).err().unwrap_or_default();
        assert!(why.contains(remedy), "{line}: {why}");
    }
}

#[test]
fn records_of_content_delivery_networks_and_clouds_are_read() {
    for (line, key, size, cost) in [
        (
            r#"{"httpRequest":{"requestMethod":"GET","requestUrl":"https://a.test/x","requestSize":"120","status":200,"responseSize":"512","latency":"0.005s"},"timestamp":"2024-03-01T10:00:00.123456Z"}"#,
            "https://a.test/x",
            512,
            5_000,
        ),
        (
            r#"{"time":"2024-03-01T10:00:00Z","properties":{"httpMethod":"GET","requestUri":"https://a.test:443/x","requestBytes":"120","responseBytes":"512","timeTaken":"0.005","httpStatusCode":"200"}}"#,
            "https://a.test:443/x",
            512,
            5_000,
        ),
        (
            r#"{"reqTimeSec":"1573840000.123","bytes":"512","statusCode":"200","reqHost":"a.test","reqMethod":"GET","reqPath":"/x","queryStr":"a=1","turnAroundTimeMSec":"125"}"#,
            "a.test/x?a=1",
            512,
            125_000,
        ),
        (
            r#"{"ClientRequestHost":"a.test","ClientRequestPath":"/x","EdgeResponseBytes":512,"EdgeResponseStatus":200}"#,
            "a.test/x",
            512,
            0,
        ),
        (
            r#"{"ts":1.7e9,"request":{"method":"GET","host":"a.test","uri":"/x"},"duration":"9.25ms","size":512,"status":200}"#,
            "a.test/x",
            512,
            9_250,
        ),
    ] {
        let (trace, _) = read(line, &Options::default()).unwrap_or_else(|why| panic!("{why}: {line}"));
        let found = (trace.name(0), trace.size(0), trace.request(0).cost);
        assert_eq!(found, (Some(key), size, cost), "{line}");
    }
    let named = "\"Time\",\"Request URL\",\"HTTP Status\",\"Bytes Sent\"\n\"2024-03-01 10:00:00\",\"/x\",\"200\",\"5\"\n";
    assert_eq!(requests(named, &Options::default()).0, [("/x".to_owned(), 5)]);
}

#[test]
fn guesses_about_hosts_and_names_are_told() {
    let haproxy = "::1:3 [06/Feb/2009:12:14:14.655] in s/srv 1/0/3/6/9 200 27 - - ---- 1/1 0/0 {a.test} \"GET /a HTTP/1.1\"\n";
    let notes = requests(haproxy, &Options::default()).1;
    assert!(notes[0].contains("--log-format"), "{notes:?}");
    let (found, notes) = requests("url\n/a\n/a,b\n", &Options::default());
    assert_eq!(found, [("/a".to_owned(), 1), ("/a,b".to_owned(), 1)]);
    assert_eq!(notes, ["its first line is taken as the name of the keys below it"]);
    let (found, notes) = requests("time,url,weight\n1,/a,9\n", &Options::default());
    assert_eq!(found, [("/a".to_owned(), 1)]);
    assert!(notes[0].contains("that of the size"), "{notes:?}");
    let (found, notes) = requests("time,url,size (bytes),zone\n1,/a,9,z\n", &Options::default());
    assert_eq!((found, notes.len()), (vec![("/a".to_owned(), 9)], 0));
}

#[test]
fn long_first_lines_and_frames_without_content_are_read() {
    let line = |path: &str| format!("::1 - - [10/Oct/2000:13:55:36 -0700] \"GET /{path} HTTP/1.0\" 200 5\n");
    let text = [line(&"a".repeat(100_000)), line("b")].concat();
    assert_eq!(keys(&text).len(), 2);
    let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
    let packed = [b"\x50\x2a\x4d\x18\x02\0\0\0ab", &*packed].concat();
    assert_eq!(read_from(Cursor::new(packed), &Options::default()).unwrap().0.len(), 2);
}

#[test]
fn logs_are_read_behind_syslog() {
    let squid =
        "1286536308.779    180 ::1 TCP_MISS/200 411 GET http://a.test/x - DIRECT/10.0.0.1 text/html\n";
    let ncsa = "::1 - - [08/Oct/2010:11:11:48 +0000] \"GET http://a.test/x HTTP/1.1\" 200 411\n";
    for before in [
        "Oct  8 11:11:48 host squid[7]: ",
        "<134>Oct  8 11:11:48 host squid: ",
        "2010-10-08T11:11:48.779+00:00 host squid[7]: ",
        "<134>1 2010-10-08T11:11:48.779Z host squid 7 - - ",
        "<134>1 2010-10-08T11:11:48.779Z host squid 7 - [at@1 a=\"b c\"][to@1] ",
        "2010-10-08T11:11:48.779123456Z stdout F ",
    ] {
        for (log, format) in [(squid, "squid"), (ncsa, "ncsa")] {
            let (found, notes) = requests(&format!("{before}{log}"), &Options::default());
            assert_eq!(found, [("http://a.test/x".to_owned(), 411)], "{before}{log}");
            assert_eq!(notes, [format!("its lines are read as {format} after the words of syslog")]);
        }
    }
}

#[test]
fn logs_are_read_by_the_pattern_of_their_server() {
    for (pattern, line, key, cost) in [
        (
            r#"%v %h %t \"%r\" %>s %b %D"#,
            r#"a.test ::1 [10/Oct/2000:13:55:36 -0700] "GET /x HTTP/1.1" 200 5 77"#,
            "a.test/x",
            77,
        ),
        ("%h|%{%s}t|%m|%U%q|%s|%B|%{ms}T", "::1|1700000000|GET|/x?y|200|5|7", "/x?y", 7_000),
        (
            r#"$scheme $host [$time_iso8601] "$request" $status $bytes_sent $request_time $upstream_cache_status"#,
            r#"https a.test [2024-03-01T10:00:00+01:00] "GET /x HTTP/2.0" 200 5 0.250 MISS"#,
            "https://a.test/x",
            250_000,
        ),
        ("$msec $host$request_uri ${status} $body_bytes_sent", "1700000000.5 a.test/x 200 5", "a.test/x", 0),
    ] {
        let options = Options { log_format: Some(pattern.parse().unwrap()), ..Options::default() };
        let (trace, reading) = read(line, &options).unwrap_or_else(|why| panic!("{why}: {pattern}"));
        let found = (trace.name(0), trace.size(0), trace.request(0).cost, reading.format);
        assert_eq!(found, (Some(key), 5, cost, Format::Custom), "{pattern}");
    }
    let why = "%h %s".parse::<larder_lab::trace::Pattern>().unwrap_err();
    assert_eq!(why, "a log format needs the request: $request, $request_uri, %r or %U");
}

#[test]
fn hits_have_no_cost_of_a_fetch() {
    let line = |word: &str| {
        format!(
            "{{\"host\":\"a\",\"url\":\"/{word}\",\"status\":200,\"micros\":9,\"response_state\":\"{word}\"}}\n"
        )
    };
    let text: String = ["HIT-CLUSTER", "MISS", "PASS", "fwd=miss; stored"].map(line).concat();
    let (trace, _) = read(&text, &Options::default()).unwrap();
    let costs: Vec<_> = (0..4).map(|at| trace.request(at).cost).collect();
    assert_eq!(costs, [0, 9, 9, 9]);
}

#[test]
fn equal_sizes_are_sizes() {
    let (trace, _) = read("key,size\na,4096\nb,4096\na,4096\n", &Options::default()).unwrap();
    assert!(trace.has_sizes());
    let found = larder_lab::describe::describe(&trace);
    assert_eq!((found.bytes_requested, found.bytes_distinct), (Some(3 * 4_096), Some(2 * 4_096)));
    let (trace, _) = read("/a\n/b\n", &Options::default()).unwrap();
    assert!(!trace.has_sizes());
}

#[test]
fn records_of_disk_requests_are_read_in_both_versions() {
    let first = |block: u64| {
        [
            &7u32.to_le_bytes()[..],
            &4096u32.to_le_bytes(),
            &[0; 4],
            &[0x28, 0, 0, 1],
            &block.to_le_bytes(),
            &5u64.to_le_bytes(),
        ]
        .concat()
    };
    let second = |block: u64| {
        let start = [&[0x28, 0, 0, 2][..], &7u32.to_le_bytes(), &4096u32.to_le_bytes(), &[0; 4]].concat();
        [&start[..], &block.to_le_bytes(), &5u64.to_le_bytes(), &[0; 8]].concat()
    };
    for records in [[9, 8, 9].map(first).concat(), [9, 8, 9].map(second).concat()] {
        let (trace, reading) = read_from(Cursor::new(records), &Options::default()).unwrap();
        assert_eq!(
            (reading.format, trace.ids(), trace.size(1), trace.time(1)),
            (Format::Vscsi, &[0, 1, 0][..], 4096, 5)
        );
    }
    let garbage = (0..60).map(first).chain([vec![0xff; 32]]).collect::<Vec<_>>().concat();
    let why = read_from(Cursor::new(garbage), &Options::default()).err().unwrap().to_string();
    assert!(why.contains("record 61: it has no length, or not the version"), "{why}");
}
