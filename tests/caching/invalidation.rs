//! RFC 9111 section 4.4: what unsafe requests spoil.

use crate::support::{Larder, Origin};

/// Which of `paths` are still answered from the cache after `unsafe_request`, which the origin
/// answers with `answer`.
fn kept(paths: &[&str], unsafe_request: &str, answer: &'static str) -> Vec<bool> {
    let origin = Origin::by(move |seen| match seen.method.as_str() {
        "GET" => "200 OK\nCache-Control: max-age=100\n\nbody".to_owned(),
        _ => answer.to_owned(),
    });
    let larder = Larder::before(&origin);
    for path in paths {
        larder.get(path);
    }
    larder.ask(unsafe_request);
    paths.iter().map(|path| larder.get(path).is_hit()).collect()
}

#[test]
fn section_4_4_an_unsafe_request_that_succeeds_removes_its_target() {
    for method in ["POST", "PUT", "DELETE", "PATCH", "BREW"] {
        assert_eq!(kept(&["/a", "/b"], &format!("{method} /a"), "200 OK"), [false, true], "{method}");
    }
    assert_eq!(kept(&["/a"], "POST /a", "303 See Other\nLocation: /b"), [false]);
    assert_eq!(kept(&["/a"], "OPTIONS /a", "200 OK"), [true]);
}

#[test]
fn section_4_4_one_that_fails_removes_nothing() {
    for answer in ["400 Bad", "404 Not Found", "500 Oops"] {
        assert_eq!(kept(&["/a", "/b"], "POST /a", answer), [true, true], "{answer}");
    }
}

#[test]
fn section_4_4_what_the_answer_names_on_the_same_origin_goes_as_well() {
    let paths = ["/b", "/c", "/d"];
    let answer = "201 Created\nLocation: /b\nContent-Location: http://site.test/c";
    assert_eq!(kept(&paths, "POST /a", answer), [false, false, true]);
    let elsewhere = "201 Created\nLocation: http://other.test/b\nContent-Location: https://site.test/c";
    assert_eq!(kept(&paths, "POST /a", elsewhere), [true, true, true]);
}

#[test]
fn section_4_4_all_variants_go() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\nVary: Colour\n\nbody");
    let larder = Larder::before(&origin);
    for request in ["GET /\nColour: red", "GET /\nColour: blue", "PUT /\n\nnew"] {
        larder.ask(request);
    }
    for colour in ["red", "blue"] {
        assert_eq!(
            larder.ask(&format!("GET /\nColour: {colour}\nCache-Control: only-if-cached")).status,
            504
        );
    }
}
