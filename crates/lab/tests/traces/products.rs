//! Lines of products that say something in another place than the others: a host, a size, a method, an operation.

use std::io::Cursor;

use larder_lab::trace::{Options, columns, read_from};

/// The URL, the size and the cost in microseconds of a request.
type Found = (String, u64, u32);

/// Returns the requests in `text`, or the reason why it is refused.
fn requests(text: &str) -> Result<Vec<Found>, String> {
    let (trace, _) = read_from(Cursor::new(text.as_bytes().to_vec()), &Options::default())
        .map_err(|why| why.to_string())?;
    let request = |at: usize| {
        let request = trace.request(at);
        (trace.name(request.id).unwrap_or_default().to_owned(), trace.size(at), request.cost)
    };
    Ok((0..trace.len()).map(request).collect())
}

/// Checks that `line`, once for each of two sites, has these requests.
fn check_sites(line: &str, keys: [&str; 2], size: u64) {
    let found = requests(&["a.test", "b.test"].map(|host| line.replace("HOST", host)).concat());
    let expected = keys.map(|key| (key.to_owned(), size, 0)).to_vec();
    assert_eq!(found, Ok(expected), "{line}");
}

#[test]
fn equal_paths_of_two_sites_are_two_objects_in_each_product() {
    for (line, keys, size) in [
        // Lighttpd writes the host in place of an identity.
        (
            "::1 HOST - [10/Oct/2000:13:55:36 -0700] \"GET /x HTTP/1.1\" 200 5 \"-\" \"M\"\n",
            ["a.test/x", "b.test/x"],
            5,
        ),
        // OpenLiteSpeed writes a quotation mark before the host.
        (
            "\"HOST ::1 - - [10/Oct/2000:13:55:36 -0700] \"GET /x HTTP/1.1\" 200 5 \"-\" \"M\"\n",
            ["a.test/x", "b.test/x"],
            5,
        ),
        // Kong and APISIX write the path, and elsewhere the URL.
        (
            "{\"request\":{\"uri\":\"/x\",\"size\":9,\"url\":\"http://HOST:80/x\",\"method\":\"GET\"},\"response\":{\"status\":200,\"size\":5}}\n",
            ["http://a.test:80/x", "http://b.test:80/x"],
            5,
        ),
        // pino has the host among the headers of the request.
        (
            "{\"req\":{\"method\":\"GET\",\"url\":\"/x\",\"headers\":{\"host\":\"HOST\",\"date\":\"-\"}},\"res\":{\"statusCode\":200},\"size\":5}\n",
            ["a.test/x", "b.test/x"],
            5,
        ),
        // CloudFront in JSON: the distribution is the same for both.
        (
            "{\"cs-method\":\"GET\",\"cs(Host)\":\"d1.test\",\"cs-uri-stem\":\"/x\",\"x-host-header\":\"HOST\",\"sc-status\":\"200\",\"sc-bytes\":\"5\"}\n",
            ["a.test/x", "b.test/x"],
            5,
        ),
        // Vercel has the path of the function, and the client's request in `proxy`.
        (
            "{\"host\":\"p.test\",\"path\":\"/[id]\",\"statusCode\":200,\"proxy\":{\"method\":\"GET\",\"host\":\"HOST\",\"path\":\"/x?y=1\",\"statusCode\":200,\"responseSize\":5}}\n",
            ["a.test/x?y=1", "b.test/x?y=1"],
            5,
        ),
    ] {
        check_sites(line, keys, size);
    }
}

#[test]
fn an_identity_is_a_host_only_if_it_looks_like_one() {
    for (identity, expected) in [
        ("-", "/x"),
        ("192.0.2.7", "/x"),
        ("2001:db8::1", "/x"),
        ("me@a.test", "/x"),
        ("frank", "/x"),
        ("a.test:80", "a.test:80/x"),
    ] {
        let line = format!("::1 {identity} - [10/Oct/2000:13:55:36 -0700] \"GET /x HTTP/1.1\" 200 5\n");
        assert_eq!(requests(&line), Ok(vec![(expected.to_owned(), 5, 0)]), "{identity}");
    }
}

#[test]
fn methods_and_operations_are_found_where_products_write_them() {
    let minio = "{\"api\":{\"name\":\"NAME\",\"bucket\":\"b\",\"object\":\"x\",\"status\":\"OK\",\"statusCode\":200,\"rx\":0,\"tx\":5,\"timeToResponse\":\"2.5ms\"},\"requestPath\":\"/b/x\",\"requestHost\":\"a.test\"}\n";
    let lines = ["GetObject", "PutObject"].map(|name| minio.replace("NAME", name)).concat();
    assert_eq!(requests(&lines), Ok(vec![("b/x".to_owned(), 5, 2_500)]));
    let verbs = "{\"verb\":\"GET\",\"request\":\"/x?y=1\",\"response\":\"200\",\"bytes\":\"5\"}\n";
    let lines = [verbs.to_owned(), verbs.replace("GET", "POST")].concat();
    assert_eq!(requests(&lines), Ok(vec![("/x?y=1".to_owned(), 5, 0)]));
}

#[test]
fn the_size_in_a_log_of_nexus_is_that_of_the_response() {
    let line = "::1 - admin [20/Oct/2023:12:00:00 +0000] \"GET /x.jar HTTP/1.1\" 200 - 1234 12 \"Maven/3.6\" [qtp1-55]\n";
    assert_eq!(requests(line), Ok(vec![("/x.jar".to_owned(), 1_234, 0)]));
    let without = line.replace(" 12 \"Maven/3.6\" [qtp1-55]", "");
    assert_eq!(requests(&without), Ok(vec![("/x.jar".to_owned(), 0, 0)]));
}

#[test]
fn a_latency_counts_only_with_its_unit() {
    for (latency, micros) in [("\"0.005s\"", 5_000), ("\"12ms\"", 12_000), ("14743", 0), ("103.5", 0)] {
        let line = format!("{{\"uri\":\"/x\",\"size\":5,\"status\":200,\"latency\":{latency}}}\n");
        assert_eq!(requests(&line), Ok(vec![("/x".to_owned(), 5, micros)]), "{latency}");
    }
}

#[test]
fn the_latency_of_a_hit_is_no_cost_of_a_fetch() {
    for (hit, micros) in [("true", 0), ("false", 5_000), ("1", 0), ("0", 5_000)] {
        let line = format!(
            "{{\"httpRequest\":{{\"requestUrl\":\"http://a.test/x\",\"responseSize\":\"5\",\"cacheHit\":{hit},\"latency\":\"0.005s\"}}}}\n"
        );
        assert_eq!(requests(&line), Ok(vec![("http://a.test/x".to_owned(), 5, micros)]), "{hit}");
    }
}

#[test]
fn requests_from_two_ports_are_of_one_client() {
    for (one, other) in [("192.0.2.1:2817", "192.0.2.1:2818"), ("[::1]:2817", "[::1]:2818")] {
        let line = |client: &str| format!("{{\"url\":\"/x\",\"clientAddr\":\"{client}\"}}\n");
        let text = [line(one), line(other), line("192.0.2.2:2817"), line("::1"), line("::2")].concat();
        let (trace, _) = read_from(Cursor::new(text.into_bytes()), &Options::default()).unwrap();
        let clients: Vec<_> = (0..5).map(|at| trace.client(at)).collect();
        assert!(clients[0] == clients[1] && clients[0] != clients[2] && clients[3] != clients[4], "{one}");
    }
}

#[test]
fn files_that_would_be_misread_are_refused_with_a_remedy() {
    let row = |words: &str| words.repeat(4);
    for (text, remedy) in [
        // Disk traces: the second column is the machine, or writes are among the reads.
        (row("128166372003061629,hm,1,Read,383496192,32768,413\n"), "--columns msr"),
        ("0,5,4096,r\n1,6,4096,w\n".to_owned(), "operation"),
        ("0,nz:u:k,1,22,304,75,get,0\n".to_owned(), "operation"),
        (row("0,web1,5,7\n"), "is no key"),
        (row("1286536308.779 SWAPOUT 00 0000000A 200 1 -1 -1 text/html -1/1024 GET http://a.test/x\n"), "--columns"),
        // Istio 1.2 has another field before the sizes; Squid with dates has others before the action.
        (
            row("[2019-03-06T09:31:27.360Z] \"GET /get HTTP/1.1\" 200 - \"-\" 0 135 5 2 \"-\" \"curl\" \"d2\" \"a:80\" \"::1\"\n"),
            "--log-format",
        ),
        (row("01/Mar/2024:10:00:00 +0100 180 ::1 TCP_MISS/200 411 GET http://a.test/x - NONE/- -\n"), "--log-format"),
        (
            "2015-05-13T23:39:43.945958Z lb 192.0.2.1:28 10.0.0.1:80 0.1 0.2 0.3 - - 82 305 \"- - - \" \"-\" - -\n".to_owned(),
            "--log-format",
        ),
        ("{\"log\":{\"version\":\"1.2\",\"entries\":[]}}".to_owned(), "jq -c '.log.entries[]"),
        ("{\n  \"log\": {\n    \"entries\": []\n  }\n}\n".to_owned(), "jq -c '.log.entries[]"),
        ("{\n  \"url\": \"/a\"\n}\n".to_owned(), "jq -c ."),
        ("PAR1\u{0}".to_owned(), "Parquet"),
        ("\u{4}\"M\u{18}".to_owned(), "lz4 -dc"),
        ("# larder workload 9\n0 GET /page/1 8123 20000\n".to_owned(), "another version"),
        // Joined files with different delimiters; YAML.
        (row("1,a,5\n2;b;5\n"), "--columns"),
        (row("a: 1\nb: 2\nc:\n  - d\n"), "--log-format"),
        ("\n\r\r\n\u{1c}\u{0}".to_owned(), "tshark"),
    ] {
        let why = requests(&text).err().unwrap_or_default();
        assert!(why.contains(remedy) && !why.contains('\n'), "{text}: {why}");
    }
}

#[test]
fn texts_of_other_systems_are_refused_with_a_remedy() {
    let rows: String = (0..24).map(|at| format!("{at},k{},100\n", at % 5)).collect();
    let utf32 =
        std::iter::once(0xfeff).chain(rows.chars().map(u32::from)).flat_map(u32::to_le_bytes).collect();
    let log = "127.0.0.1 - - [01/Mar/2024:10:00:00 +0000] \"GET /x HTTP/1.1\" 200 9\r".repeat(3);
    let returns = rows.replace('\n', "\r");
    for (bytes, remedy) in
        [(utf32, "iconv -f UTF-32"), (returns.into_bytes(), "tr '\\r'"), (log.into_bytes(), "tr '\\r'")]
    {
        let why = read_from(Cursor::new(bytes), &Options::default()).err().map(|why| why.to_string());
        assert!(why.as_ref().is_some_and(|why| why.contains(remedy)), "{remedy}: {why:?}");
    }
}

#[test]
fn the_lines_of_a_server_for_development_are_read() {
    let line = "127.0.0.1 - - [01/Mar/2024 10:00:00] \"GET /x HTTP/1.1\" 200 -\n";
    assert_eq!(requests(line), Ok(vec![("/x".to_owned(), 0, 0)]));
}

#[test]
fn a_misspelt_column_is_answered_with_the_nearest_one() {
    let why = columns("tim,key,size").unwrap_err();
    assert!(why.ends_with("did you mean 'time'?"), "{why}");
    assert!(columns("twiter").unwrap_err().ends_with("did you mean 'twitter'?"));
}

#[test]
fn files_that_were_joined_in_the_wrong_order_are_told() {
    let notes = |times: &[u64]| {
        let lines: String = times.iter().map(|time| format!("{time},a,5\n")).collect();
        let text = format!("time,key,size\n{lines}");
        read_from(Cursor::new(text.into_bytes()), &Options::default()).unwrap().1.notes()
    };
    assert!(notes(&[5_000, 5_001, 1_000, 1_001])[0].starts_with("2 of its requests come after later ones"));
    // Servers write a line when a request ends.
    assert!(notes(&[5_000, 5_001, 4_990, 5_002]).is_empty());
}
