//! Pages that replace the content of errors.

use super::expectations::check;
use crate::with_rules;
use larder_testkit::{Larder, Origin, eventually, site};

/// Returns rules with pages: for the whole site for 404 and 5xx, and for `/api/*` for 500 to 503.
fn rules(folder: &std::path::Path) -> String {
    let file = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).expect("written");
        folder.join(name).display().to_string()
    };
    format!(
        "[[site.rule]]\nerror_page = {{ 404 = '{}', 5xx = '{}', 403 = '{}' }}\nreply = {{ set = {{ X-Own = 'yes' }} }}\n\
         [[site.rule]]\nmatch = {{ path = '/api/*' }}\nerror_page = {{ '500-503' = '{}' }}\n\
         [[site.rule]]\nmatch = {{ path = '/closed' }}\ndeny = ['0.0.0.0/0']\n\
         [[site.rule]]\nmatch = {{ path = '/git' }}\nrespond = 404\n\
         [[site.rule]]\nmatch = {{ path = '/own' }}\nrespond = {{ status = 404, body = 'own' }}\n",
        file("404.html", "<p>not here"),
        file("sorry.HTM", "<p>sorry"),
        file("403.txt", "no"),
        file("error.json", "{}"),
    )
}

#[test]
fn pages_replace_the_content_of_errors_and_what_is_said_about_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let origin = Origin::by(|seen| {
        let status = seen.target.rsplit('/').next().unwrap_or_default().to_owned();
        format!(
            "{status} X\nCache-Control: max-age=100\nContent-Type: text/x\nETag: \"1\"\nContent-Encoding: x\n\
             Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT\nX-Kept: a\n\n{status} of the origin"
        )
    });
    let larder = with_rules(&origin, &rules(folder.path()));
    for (path, text, kind) in [
        ("/a/404", "<p>not here", "text/html; charset=utf-8"),
        ("/a/500", "<p>sorry", "text/html; charset=utf-8"),
        ("/api/503", "{}", "application/json"),
        ("/api/504", "<p>sorry", "text/html; charset=utf-8"),
        ("/a/410", "410 of the origin", "text/x"),
        ("/closed", "no", "text/plain; charset=utf-8"),
        ("/git", "<p>not here", "text/html; charset=utf-8"),
        ("/own", "own", "text/plain; charset=utf-8"),
    ] {
        for method in ["GET", "HEAD", "GET"] {
            let answer = larder.ask(&format!("{method} {path}"));
            let expected = if method == "HEAD" { "" } else { text };
            assert_eq!((answer.text(), answer.field("content-type")), (expected, Some(kind)), "{path}");
            let length = text.len().to_string();
            assert_eq!(answer.field("content-length"), Some(&*length), "{method} {path}");
            assert_eq!(answer.field("x-own"), Some("yes"), "{path}");
            if text.starts_with('<') && path.starts_with("/a") {
                let gone = ["etag", "content-encoding", "last-modified"].map(|name| answer.field(name));
                assert_eq!((gone, answer.field("x-kept")), ([None; 3], Some("a")), "{path}");
            }
        }
    }
    let stored = larder.get("/a/404");
    assert_eq!((stored.is_hit(), stored.status, stored.text()), (true, 404, "<p>not here"));
    assert_eq!(larder.ask("POST /a/404\nContent-Length: 0").text(), "<p>not here");
    origin.die();
    let down = larder.get("/b");
    assert_eq!((down.status, down.text()), (502, "<p>sorry"));
    assert!(down.field("cache-status").is_some_and(|status| status.contains("detail=origin-unreachable")));
}

#[test]
fn a_reload_reads_pages_again_and_expectations_include_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let origin = Origin::always("404 Not Found\n\nx");
    let rules = rules(folder.path());
    let config = site(&[&origin], &rules);
    let larder = Larder::start(&config);
    std::fs::write(folder.path().join("404.html"), "<p>new").expect("written");
    larder.reload(&config);
    eventually("the new page", || (larder.get("/").text() == "<p>new").then_some(()));
    let tests = "[[test]]\nrequest = 'GET http://a/x'\norigin = { status = 404, fields = { ETag = '\"1\"' } }\n\
                 expect = { status = 404, fields = { Content-Type = 'text/html; charset=utf-8', ETag = '', X-Own = 'yes' } }\n\
                 [[test]]\nrequest = 'GET http://a/closed'\n\
                 expect = { outcome = 'refused', fields = { Content-Type = 'text/plain; charset=utf-8' } }\n\
                 [[test]]\nrequest = 'GET http://a/own'\n\
                 expect = { outcome = 'answered', fields = { Content-Type = 'text/plain; charset=utf-8' } }\n";
    let done = check(&config, tests);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn too_long_content_gets_the_page_and_the_fields_of_rules() {
    let (_folder, page) = larder_testkit::file_with("long.json", "{\"error\":\"too long\"}");
    let rule = format!(
        "[[site.rule]]\nmax_body = '10B'\nerror_page = {{ 413 = '{}' }}\ncors = 'https://app.test'\n",
        page.display()
    );
    let larder = with_rules(&Origin::always("200 OK\n\nx"), &rule);
    let refused = larder.client().ask("POST /a\nOrigin: https://app.test\nContent-Length: 11");
    assert_eq!((refused.status, refused.text()), (413, "{\"error\":\"too long\"}"));
    assert_eq!(refused.field("access-control-allow-origin"), Some("https://app.test"));
    assert_eq!(larder.ask("POST /a\n\n0123456789").status, 200);
}

#[test]
fn a_page_may_replace_the_status_of_an_error() {
    let (_folder, app) = larder_testkit::file_with("app.html", "<p>app");
    let origin =
        Origin::by(|seen| format!("{} X\nCache-Control: max-age=100\n\nof the origin", &seen.target[1..4]));
    let page = format!("{{ file = '{}', status = 200 }}", app.display());
    let larder = with_rules(&origin, &format!("[[site.rule]]\nerror_page = {{ 404 = {page} }}\n"));
    for (request, status, text) in [
        ("GET /404", 200, "<p>app"),
        ("GET /404", 200, "<p>app"),
        ("HEAD /404", 200, ""),
        ("GET /403", 403, "of the origin"),
    ] {
        let answer = larder.ask(request);
        assert_eq!((answer.status, answer.text()), (status, text), "{request}");
    }
}
