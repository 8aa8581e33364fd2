//! Requests and responses that are designed to cost processor time: the work remains linear in their length.

use larder_testkit::{Answer, Larder, Origin};

#[test]
fn connection_options_have_a_limit_in_both_directions() {
    let options = "a,".repeat(15_000);
    let head = format!("200 OK\nCache-Control: max-age=1000\nConnection: {options}");
    let origin = Origin::answering(move |seen| match seen.target.as_str() {
        "/many" => Answer::with_body(&head, b"x"),
        _ => Answer::with_body("200 OK\nConnection: x-hop\nX-Hop: 1", b"x"),
    });
    let larder = Larder::before(&origin);
    let refused = larder.client().ask(&format!("GET /\nConnection: {options}"));
    assert_eq!((refused.status, refused.text().contains("too many connection options")), (400, true));
    assert_eq!(larder.client().ask("GET /many").status, 502);
    let passed = larder.client().ask("GET /\nConnection: x-b, keep-alive\nX-B: 1\nX-C: 2");
    assert_eq!((passed.status, passed.field("x-hop")), (200, None));
    let asked = origin.last();
    assert_eq!((asked.field("x-b"), asked.field("x-c")), (None, Some("2")));
}

#[test]
fn many_variants_of_long_fields_are_distinguished() {
    let origin = Origin::by(|seen| {
        let last = seen.field("x-long").and_then(|value| value.rsplit(',').next()).unwrap_or_default();
        format!("200 OK\nCache-Control: max-age=1000\nVary: X-Long, Accept\n\n{last}")
    });
    let larder = Larder::before(&origin);
    let ask = |number: usize| {
        format!("GET /\nX-Long: {}{number}\nAccept: {}", "x,".repeat(4_000), "a/b,".repeat(500))
    };
    for number in 0..32 {
        larder.ask(&ask(number));
    }
    for number in (0..32).rev() {
        let response = larder.client().ask(&ask(number));
        assert_eq!((response.is_hit(), response.text()), (true, number.to_string().as_str()));
    }
}

#[test]
fn single_bytes_are_not_joined_to_a_long_part() {
    const LONG: usize = 1 << 20;
    let origin = Origin::answering(|seen| {
        let range = seen.field("range").and_then(|range| range.strip_prefix("bytes="));
        let (first, last) = range.and_then(|range| range.split_once('-')).expect("a range");
        let (first, last): (usize, usize) =
            (first.parse().expect("a number"), last.parse().expect("a number"));
        let fields = format!("Content-Range: bytes {first}-{last}/{}", 4 * LONG);
        let head = format!("206 Partial Content\nCache-Control: max-age=100\nETag: \"1\"\n{fields}");
        Answer::with_body(&head, &vec![b'a'; last + 1 - first])
    });
    let larder = Larder::before(&origin);
    let is_joined = |number: usize, (first, last): (usize, usize)| {
        larder.ask(&format!("GET /{number}\nRange: bytes=0-{}", LONG - 1));
        larder.ask(&format!("GET /{number}\nRange: bytes={first}-{last}"));
        larder.settle();
        let both = format!("GET /{number}\nRange: bytes={}-{LONG}\nCache-Control: only-if-cached", LONG - 1);
        larder.ask(&both).is_hit()
    };
    assert!(!is_joined(1, (LONG, LONG)));
    assert!(is_joined(2, (LONG, LONG + LONG / 16)));
    assert!(is_joined(3, (LONG, 4 * LONG - 1)));
}

#[test]
fn an_answer_that_comes_byte_by_byte_is_read() {
    let origin = Origin::speaking(|peer| {
        while peer.request().is_some() {
            let fields = "X-Field: value\r\n".repeat(50);
            let answer = format!("\r\nHTTP/1.1 200 OK\r\n{fields}Transfer-Encoding: chunked\r\n\r\n");
            let answer = answer + "2\r\nok\r\n0\r\nX-Trailer: value\r\nX-Other: value\r\n\r\n";
            answer.as_bytes().chunks(1).for_each(|byte| peer.send(byte));
        }
    });
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    for _ in 0..2 {
        client.send("GET /");
        let head = client.head();
        assert_eq!((head.status, client.content(&head).0), (200, b"ok".to_vec()));
    }
}

/// An index without the versions that are young is sent within the time in which clients wait for it.
#[test]
fn indexes_of_links_without_end_are_read_once() {
    let file = |number| format!(r#"{{"filename":"a-{number}.zip","upload-time":"2020-01-01T00:00:00Z"}}"#);
    let files: Vec<_> = (0..60_000).map(file).collect();
    let versions: Vec<_> = (0..60_000).map(|number| format!(r#""{number}""#)).collect();
    let json = format!(r#"{{"versions":[{}],"files":[{}]}}"#, versions.join(","), files.join(","));
    let origin = Origin::answering(move |seen| {
        let (media_type, page) = match seen.target.as_str() {
            "/simple/links/" => ("text/html", "<a href=".repeat(1 << 19)),
            "/simple/comments/" => ("text/html", "<!--".repeat(1 << 20)),
            _ => ("application/vnd.pypi.simple.v1+json", json.clone()),
        };
        let head = format!("200 OK\nCache-Control: max-age=1000\nContent-Type: {media_type}");
        Answer::with_body(&head, page.as_bytes())
    });
    let rule = "[[site.rule]]\npackages = 'pypi'\nmin_age = '7d'";
    let larder = Larder::start(&format!("{}\n{rule}", larder_testkit::site(&[&origin], "")));
    for name in ["links", "comments", "json"] {
        assert_eq!(larder.ask(&format!("GET /simple/{name}/")).status, 200, "{name}");
    }
}
