//! Invalid rules: the command reports the error, its position, and the valid alternatives.

use std::process::Command;

/// Returns the messages of `larder check` for a site with this rule, without the prefix that all lines share.
fn check(rule: &str) -> (Option<i32>, String) {
    check_config(&format!("[[site]]\norigin = 'http://127.0.0.1:9'\n[[site.rule]]\n{rule}\n"))
}

/// Returns the messages of `larder check` for this config.
pub(super) fn check_config(text: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("larder.toml");
    std::fs::write(&config, text).expect("written");
    let mut check = Command::new(env!("CARGO_BIN_EXE_larder"));
    let output = check.arg("check").arg("--config").arg(&config).output().expect("larder runs");
    let said = String::from_utf8_lossy(&output.stderr).replace(&*config.to_string_lossy(), "larder.toml");
    (output.status.code(), said)
}

/// Checks that each rule is refused by an error of one line.
fn refuses(cases: &[(&str, &str)]) {
    for (rule, expected) in cases {
        let (code, said) = check(rule);
        let is_told =
            said.contains(expected) && said.contains("larder.toml:") && said.trim_end().lines().count() == 1;
        assert!(is_told && code == Some(2), "{rule}: {code:?} {said}");
    }
}

/// Checks that a rule causes this warning.
fn warns(rule: &str, warning: &str) {
    let (_, told) = check(rule);
    assert!(told.contains(&format!("larder.toml:3: {warning}")), "{rule}: {told}");
}

#[test]
fn each_error_is_a_line_with_its_place_and_a_remedy() {
    let cases = [
        ("tll = '1h'", "larder.toml:4: unknown key 'tll' in this rule; did you mean 'ttl'?"),
        (
            "ttl = '1h'\nmatch = { pth = '/a' }",
            "larder.toml:5: unknown key 'pth' in 'match' of this rule; did you mean 'path'?",
        ),
        ("cache = false\nmatch = { path = '~(' }", "'(' is not a regular expression: unclosed group"),
        ("stop = false", "the rule has no effect: add one, such as ttl = \"1h\", or stop = true"),
        ("deny = '10.0.0.0/33'", "10.0.0.0/33"),
        ("redirect = '{2}'", "begin it with '/', {uri}, {path}, {1}, http:// or https://"),
        (
            "redirect = 'https://a.example{query}'",
            "only {host}, and {1} of match.host, may stand in the host",
        ),
        ("redirect = '/{1}'", "{1} to {9} stand for parts of match.path"),
        ("key_fields = 'X-A'\nmatch = { cookie = 'a' }", "match only path, extension, host and scheme"),
        ("ttl = '1h'\nmatch = { field = 'X-Forwarded-For' }", "'x-forwarded-for' is not seen by rules"),
        ("ttl = '1h'\nmatch = { field = 'Host' }", "the host is in match.host"),
        ("deny = '10.0.0.0/8'\nmatch = { status = 404 }", "'deny' takes effect before there is a response"),
        ("deny = '0.0.0.0/0'\nmatch = { domains = 'none.txt' }", "cannot read none.txt: no such file"),
        ("error_page = { 404 = 'none.html' }", "cannot read none.html: no such file"),
        ("error_page = { 404 = { file = 'a', status = 204 } }", "a response with status 204 has no page"),
        ("error_page = { 3xx = 'a' }", "'3xx': pages are for errors, which are 400 to 599"),
        (
            "origin = 'http://a'\nmatch = { cookie = 'a' }",
            "match only path, extension, host, scheme and query",
        ),
        (
            "origin = 'http://a'\nttl = '1h'\nmatch = { cookie = 'a' }\n[[site.rule]]\nkey_cookies = 'a'",
            "'ttl' and origins by a field or cookie: write them in separate rules",
        ),
        ("origin = ['http://a backup', 'http://b weight=0']", "no origin gets requests"),
        ("split = { field = 'X-A', values = { a = 0 } }", "no bucket gets clients"),
        ("split = { field = 'X-A' }", "field and values belong together"),
        ("split = { field = 'X-A', values = { 'a*' = 1 } }", "'a*' is not a word"),
        ("bandwidth = '1B'", "1B is not a size from 1KiB to 1TiB"),
        ("rewrite = 'a{path}'", "'a{path}' is not a path: begin it with '/', {path}, {uri} or {1}"),
        ("rewrite = '/{1}'", "{1} to {9} stand for parts of match.path"),
        ("cors = 'app.example'", "'app.example' is not an origin such as"),
        ("cors = 'https://app.example/'", "'https://app.example/' is not an origin such as"),
        ("cors = { origins = '*', credentials = true }", "browsers accept no credentials where origins is"),
        ("cors = ['*', 'http://a']", "write it alone"),
        ("cors = { methods = 'GET' }", "it has no origins, such as"),
        (
            "cors = '*'\nmatch = { status = 200 }",
            "cors takes effect before there is a response: match only the request",
        ),
        ("classes = { field = 'X-A', of = 'X-B' }", "field, of and values belong together"),
        ("classes = { field = 'X-A', of = 'Host', values = { a = 'b' } }", "the host is in match.host"),
        ("classes = { field = 'X-A', of = 'client', values = { a = 'b' } }", "'b' is neither an address nor"),
        (
            "classes = { field = 'X-A', of = 'X-B', values = { a = 'b' } }\nmatch = { cookie = 'a' }",
            "classes hold for all requests of a path",
        ),
        ("allow = '@none.txt'", "cannot read none.txt: no such file"),
        ("retries = 101", "101 is not a number from 0 to 100"),
        ("origin = 'a'", "write the scheme too, such as 'http://a'"),
        ("reply = { set = { Content-Length = '1' } }", "'content-length' cannot be changed"),
        ("cache = false\nmatch = { query = 'a=1' }", "'a=1' is no name: for a value, write { a = \"1\" }"),
        ("ttl = '1h'\nignore = 'Vary'", "response = { remove = \"Vary\" } ignores Vary"),
        ("ttl = '1h'\nmatch = { header = 'a' }", "fields of the request are in match.field"),
        (
            "request = { remove = 'Via' }",
            "'via' names the proxies on the way; only reply.remove can remove it",
        ),
    ];
    refuses(&cases);
}

#[test]
fn faults_of_checks_times_and_placeholders_are_named() {
    let cases = [
        ("auth_request = { send = 'Cookie' }", "it has no 'url', that of the service"),
        ("auth_request = { url = 'http://a', cache = '1m' }", "cache needs 'by', the credential"),
        ("auth_request = { url = 'http://a', cache = '1m', by = 'uri' }", "cache needs 'by', the credential"),
        ("auth_request = { url = 'http://a', by = 'field:A' }", "by has no meaning without cache"),
        (
            "auth_request = { url = 'http://a', cache = '1m', by = 'cookies' }",
            "'cookies' is none of: field:NAME",
        ),
        (
            "auth_request = { url = 'http://a', take = 'X-User' }\nmatch = { cookie = 'a' }",
            "auth_request.take, jwt.send and user_field store separate responses for all requests of a path",
        ),
        ("jwt = { jwks = 'http://a/k', issuer = 'b' }", "it has no 'audience', which tokens name in aud"),
        (
            "jwt = { jwks = '@none.json', issuer = 'b', audience = 'c' }",
            "cannot read none.json: no such file",
        ),
        (
            "jwt = { jwks = 'http://a/k', issuer = 'b', audience = 'c', from = 'field:X' }",
            "is none of: bearer cookie:NAME",
        ),
        ("cache = false\nmatch = { claim = 'role' }", "match.claim: no rule here has jwt"),
        (
            "jwt = { jwks = 'http://a/k', issuer = 'b', audience = 'c' }\nmatch = { claim = 'role' }",
            "'jwt' takes effect before the token is verified: match.claim is for cache, allow, deny",
        ),
        ("signed = { keys = '/dev/null', in = 'path' }", "no key in this file"),
        ("tags = 'a,b'", "'a,b' is not a tag: tags have no commas"),
        (
            "tags = '{client}'",
            "tags: {client}, {client_cert}, {id}, {outcome} and {time} differ among requests",
        ),
        (
            "request = { set = { A = '{field:Client-Cert}' } }",
            "the certificate that a client has shown is in match.client_cert",
        ),
        ("balance = 'hash'", "balance chooses among the origins of its rule"),
        ("redirect = '/{field:X-A}'", "a client's fields and cookies stand in no redirect"),
        (
            "ttl = '1h'\nmatch = { field = 'Client-Cert' }",
            "the certificate that a client has shown is in match.client_cert",
        ),
        ("ttl = '1h'\nmatch = { time = '22-6' }", "'22-6' is no part of a day such as \"22:00-06:00\""),
        ("ttl = '1h'\nmatch = { from = '24.12.2026' }", "'24.12.2026' is no date such as \"2026-12-24\""),
        ("ttl = '1h'\nmatch = { until = 2026-12-24T18:00:00Z }", "write the time zone in match.zone"),
        ("ttl = '1h'\nmatch = { zone = 'Mars' }", "'Mars' is no time zone that this machine knows"),
        ("ttl = '1h'\nmatch = { map = { by = 'host' } }", "it has no 'file'"),
        (
            "redirect = 'https://{1}.example/'\nmatch = { path = '/*' }",
            "write a slash before them, or no match.path",
        ),
        ("redirect = '/{cookie:a}'", "a client's fields and cookies stand in no redirect"),
    ];
    refuses(&cases);
}

#[test]
fn faults_of_files_and_users_are_named() {
    refuses(&[
        ("error_page = { 404 = 'http://a/404' }", "; write the path of a file, not a URL"),
        ("cache = false\nmatch = { field = { X-A = '@none.txt' } }", "cannot read none.txt: no such file"),
        ("request = { set = { X-A = '@none.txt' } }", "cannot read none.txt: no such file"),
        ("reply = { set = { X-A = '{client_cert}' } }", "reply: {client_cert} is known only in requests"),
        ("user_field = 'X-A'\nmatch = { cookie = 'a' }", "match only path, extension, host and scheme"),
        ("user_field = 'Cookie'", "'cookie' has a meaning of its own"),
        (
            "request = { set = { X-A = '{client_cert}' } }\nmatch = { client_cert = true }",
            "request: {client_cert} stores separate responses for all requests of a path",
        ),
    ]);
}

#[test]
fn errors_about_a_secret_file_do_not_show_its_text() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().display();
    let said = |text: &str| {
        std::fs::write(file.path(), text).expect("written");
        check(&format!("request = {{ set = {{ X-Key = '@{path}' }} }}"))
    };
    let (code, told) = said("hush\nhush");
    assert!(
        code == Some(2) && told.contains("write one line of visible") && !told.contains("hush"),
        "{told}"
    );
    assert!(said(" \n").1.contains(&format!("{path}: it is empty")));
    // Braces are no placeholders there.
    assert_eq!(said("a{outcome}{b}{1}\n").0, Some(0));
    assert!(!said("a{outcome}{b}{1}\n").1.contains("warning"));
}

#[test]
fn patterns_that_can_match_nothing_are_errors() {
    let cases = [
        (
            "deny = '0.0.0.0/0'\nmatch = { path = '/a%20b/*' }",
            "'/a%20b/*' never matches: paths are compared in one form, in which this is '/a b/*'",
        ),
        (
            "cache = false\nmatch = { path = '!/api/*' }",
            "'!/api/*': write not, as in match = { not = { path = \"/api/*\" } }",
        ),
        ("deny = '0.0.0.0/0'\nmatch = { path = '*//a' }", "in which this is '*/a'"),
        ("deny = '0.0.0.0/0'\nmatch = { path = '/a/../b' }", "in which this is '/b'"),
        ("deny = '0.0.0.0/0'\nmatch = { path = '/a\\b' }", "in which this is '/a/b'"),
        (
            "ttl = '1h'\nmatch = { host = 'a.example:80' }",
            "write a host alone, without scheme, port and path",
        ),
        ("ttl = '1h'\nmatch = { host = 'http://a.example' }", "write a host alone"),
        ("ttl = '1h'\nmatch = { host = '[::1]:80' }", "write a host alone"),
        ("ttl = '1h'\nmatch = { host = 'b\u{fc}cher.example' }", "clients send the ASCII form of such names"),
        (
            "ttl = '1h'\nmatch = { type = 'text/html; charset=utf-8' }",
            "write a media type without parameters",
        ),
        ("ttl = '1h'\nmatch = { type = 'html' }", "write a media type without parameters"),
        ("cors = 'https://a*.example'", "'https://a*.example': \"*\" stands alone, for all origins"),
    ];
    refuses(&cases);
}

#[test]
fn rules_that_never_hold_or_break_guarantees_are_reported() {
    let (code, said) = check(
        "match = { path = '/a/*' }\nstop = true\n\
         [[site.rule]]\nmatch = { path = '/a/b' }\nttl = '1h'\n\
         [[site.rule]]\nmatch = { path = '/x.css', extension = 'js' }\nttl = '1h'\n\
         [[site.rule]]\nmatch = { min_length = '2KiB', max_length = '1KiB' }\nttl = '1h'\n\
         [[site.rule]]\nmatch = { path = '/c/d', not = { path = '/c/*' } }\nttl = '1h'\n\
         [[site.rule]]\nignore = 'private'\n\
         [[site.rule]]\nmatch = { path = '/a*', host = ['other.example', '*'] }\nttl = '1h'\n\
         [[site]]\nhosts = ['*.shop.example', 'shop.example']\npath = '/shop'\norigin = 'http://127.0.0.1:9'\n\
         [[site.rule]]\nmatch = { host = ['www.shop.example', 'other.example'], path = ['/*', '/shop/a'] }\nttl = '1h'\n\
         [[site.rule]]\nmatch = { host = 'shop.exampel' }\nttl = '1h'\n\
         [[site.rule]]\nmatch = { path = ['/api/*', '/shopping'] }\nttl = '1h'",
    );
    assert_eq!(code, Some(0), "{said}");
    let lines: Vec<_> = said.lines().filter(|line| line.contains("larder.toml:")).collect();
    let expected = [
        ":6: the rule never holds: the one at larder.toml:3 takes its requests, with stop = true",
        ":9: the rule never holds: the path '/x.css' has none of the extensions",
        ":12: the rule never holds: no length is 2048 at least and 1024 at most",
        ":15: the rule never holds: its 'not' excludes all that it matches",
        ":18: ignore = \"private\" serves responses that the origin sent for one user",
        ":30: the rule never holds: its site is not for the host 'shop.exampel'",
        ":33: the rule never holds: its site is for paths below /shop, and not for '/api/*'",
    ];
    for text in expected {
        assert!(lines.iter().any(|line| line.contains(text)), "{text}\n{said}");
    }
    assert_eq!(lines.len(), expected.len(), "{said}");
}

#[test]
fn rules_that_say_less_than_meant_cause_a_warning() {
    for (lines, warning) in [
        ("query = { keep = ['a'], drop = ['a*'] }", "query: 'a' is kept and dropped"),
        (
            "query = { drop = ['!a'] }",
            "query: drop = [\"!a\"] drops nothing: for all but this one, write keep = [\"a\"]",
        ),
        ("request = { cookies = { drop = ['!a'] } }", "'!a' is a cookie whose name begins with '!'"),
        ("match = { method = 'POST' }\nttl = '1h'", "ttl has no effect: no response to these methods"),
        ("cache = false\nttl = '1h'", "its lifetime has no effect: cache = false stores nothing"),
        ("stale_if_slow = '1s'\nstale_if_error = '0s'", "stale_if_slow has no effect: stale_if_error"),
        ("stale_if_slow = '1s'\ncache = false", "stale_if_slow has no effect: cache = false"),
        (
            "match = { path = '/static/' }\nttl = '1h'",
            "match.path = \"/static/\" is one URL: write \"/static/*\"",
        ),
        (
            "limit = { requests = '1/s', by = 'field:X-Key' }",
            "limit.by = \"field:x-key\": all requests without it share one limit",
        ),
        (
            "match = { path = '/a/*' }\nredirect = '/b/$1'",
            "'$1' stays as it is: parts of requests are written as {1} and {uri}",
        ),
        ("match = { until = '2020-01-01' }\nttl = '1h'", "the rule never holds: match.until is over"),
        ("match = { path = '/a|/b' }\nttl = '1h'", "in '/a|/b', the | stands for itself: '~' begins"),
        ("match = { path = '*.{css,js}' }\nttl = '1h'", "in '*.{css,js}', the { stands for itself"),
        (
            "match = { not = { field = { User-Agent = '*bot|spider*' } } }\nttl = '1h'",
            "in '*bot|spider*', the | stands for itself",
        ),
        ("match = { path = '/a/[0-9]*' }\nttl = '1h'", "in '/a/[0-9]*', the [ stands for itself"),
        ("user_field = 'X-User'", "user_field has no effect: no rule of the site has users or tokens"),
        ("respond = 444", "respond = 444 is an answer with this status here"),
        (
            "match = { from = '2020-01-02', until = '2020-01-01' }\nttl = '1h'",
            "the rule never holds: match.until is not after",
        ),
        (
            "match = { client_cert = true }\nttl = '1h'",
            "match.client_cert: no client shows a certificate without client_ca in [reverse]",
        ),
        (
            "tags = '{field:X-Tenant}'",
            "tags: {field:x-tenant} names only the request that fetched the response",
        ),
        (
            "match = { path = '~//' }\nredirect = '{path}'",
            "match.path = \"~//\" never matches: paths are compared",
        ),
        ("match.query = 'b'\nquery.drop = 'b'\nrewrite = '/b'", "it sends nothing to other origins or paths"),
        ("request = { set = { X-Real-IP = '{client}' } }", "request: {client} in 'x-real-ip' is for logs"),
    ] {
        warns(lines, warning);
    }
    for lines in [
        "query = { drop = ['@tracking', '!gclid'] }",
        "match = { path = ['/static/', '/static/*'] }\nttl = '1h'",
        "match = { field = 'X-Key' }\nlimit = { requests = '1/s', by = 'field:X-Key' }",
        "match = { path = '/a/*' }\nredirect = '/b/{1}?price=5$'",
        "key_fields = 'X-Real-IP'\nrequest = { set = { X-Real-IP = '{client}' } }",
        "match = { path = '~^/a//?b' }\nttl = '1h'",
        "ttl = '1h'\nresponse = { set = { Cache-Control = 'no-cache=\"Set-Cookie\", private=\"X-User\"' } }",
        "match = { path = ['/_next/static/chunks/pages/[slug]-*.js', '/users/{id}'] }\nttl = '1h'",
    ] {
        assert!(!check(lines).1.contains("warning"), "{lines}");
    }
}

#[test]
fn stars_in_names_and_rates_behind_a_part_have_bounds() {
    refuses(&[
        ("reply = { remove = 'Co*' }", "'co*' would remove 'connection': it belongs to the connection"),
        (
            "reply = { remove = 'X-*-A' }",
            "'x-*-a' is not a field name: only remove has names such as X-Internal-*",
        ),
        (
            "bandwidth = { rate = '1MiB', by = 'all', after = '1MiB' }",
            "after is about each reply: write it without by",
        ),
    ]);
}

#[test]
fn lifetimes_without_effect_and_conditions_on_classes_cause_a_warning() {
    for (lines, warning) in [
        (
            "ttl = '1h'\nresponse = { set = { Cache-Control = 'max-age=0, No-Cache' } }",
            "response: this Cache-Control keeps responses out of the cache in spite of ttl",
        ),
        (
            "match = { not = { field = 'X-D' } }\nrespond = 403\n[[site.rule]]\nclasses = { field = 'X-D', of = 'A', values = { b = 'b' } }",
            "match.field = \"x-d\" is about what clients send, and not about their class",
        ),
    ] {
        warns(lines, warning);
    }
}
