//! Generated configs: each is valid, or has errors of one line.

use proptest::prelude::*;

use super::super::flags::Flags;
use super::super::parse;

/// Generates lines of configs, valid and not, with values that they may get.
fn config() -> impl Strategy<Value = String> {
    const TABLES: &[&str] = &[
        "[[site]]",
        "[[site.rule]]",
        "[[forward.rule]]",
        "[memory]",
        "[[disk]]",
        "[[listener]]",
        "[[tls]]",
        "[cluster]",
    ];
    const KEYS: &[&str] = &[
        "origin",
        "hosts",
        "match",
        "ttl",
        "query",
        "limit",
        "redirect",
        "respond",
        "reply",
        "users",
        "domains",
        "size",
        "path",
        "compress",
        "error_page",
        "class",
        "listen",
        "cert",
        "policy",
        "stop",
        "name",
        "key_fields",
    ];
    const VALUES: &[&str] = &[
        "'http://127.0.0.1:1'",
        "'~('",
        "'/a/*'",
        "{ path = '/*', not = { cookie = 'a' } }",
        "{ status = [404, '5xx'] }",
        "'1h'",
        "{ 200 = '1h', 5xx = '0s' }",
        "{ requests = '1/s', by = 'field:X' }",
        "'https://{host}{uri}'",
        "{ set = { X = 'y' } }",
        "false",
        "[]",
        "['@tracking']",
        "-1",
        "1e9",
        "{ file = 'none' }",
        "'\\u0000'",
        "{ }",
        "{ a = { b = { c = 1 } } }",
        "'64MiB'",
    ];
    let key = (prop::sample::select(KEYS), prop::sample::select(VALUES));
    let line = prop_oneof![
        2 => prop::sample::select(TABLES).prop_map(str::to_owned),
        4 => key.prop_map(|(key, value)| format!("{key} = {value}")),
        1 => "\\PC{0,12}",
    ];
    prop::collection::vec(line, 0..12).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn no_file_is_too_strange(text: String, key in "[a-z_\\[\\]\\.]{1,12}", value in "[0-9a-z\"'\\[\\]{}=., -]{0,20}") {
        let _ = parse("larder.toml", &text, &Flags::default());
        let _ = parse("larder.toml", &format!("{key} = {value}\n[[site]]\n{key} = {value}"), &Flags::default());
    }

    #[test]
    fn any_text_is_a_config_or_has_problems_of_one_line_each(text in config()) {
        if let Err(wrong) = parse("larder.toml", &text, &Flags::default()) {
            prop_assert!(!wrong.problems.is_empty());
            for problem in wrong.problems {
                prop_assert!(!problem.is_empty() && !problem.contains('\n'), "{problem:?} of {text:?}");
            }
        }
    }
}
