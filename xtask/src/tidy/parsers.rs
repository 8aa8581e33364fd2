//! Where messages of HTTP/1 are parsed: only where they arrive. A module that prints a message to have it parsed again
//! can pass its parts on (`Head::compose`, `FieldWriter`).

use super::Text;
use super::layers::without_tests;

const ROOT: &str = "crates/proxy/src/";

/// Parsers, as a module and a function of it (or the name of a crate), and the files that may use them.
const PARSERS: &[(&str, Option<&str>, &[&str])] = &[
    ("httparse", None, &["http/chunked.rs", "http/head.rs", "http/response.rs"]),
    ("head", Some("parse"), &["http1/connection.rs"]),
    ("response", Some("parse"), &["origin/exchange.rs"]),
];

/// Returns each use of a parser in a file that may not use it. Tests may.
pub(super) fn check(files: &[Text]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files {
        let Some(path) = file.path.strip_prefix(ROOT).filter(|path| !path.ends_with("tests.rs")) else {
            continue;
        };
        for (number, line) in without_tests(&file.text).lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let is_misplaced = |(module, function, places): &&(&str, Option<&str>, &[&str])| {
                !places.contains(&path) && uses(code, module, *function)
            };
            for (module, function, _) in PARSERS.iter().filter(is_misplaced) {
                let parser =
                    function.map_or(String::from(*module), |function| format!("{module}::{function}"));
                let place = format!("{}:{}", file.path, number + 1);
                problems.push(format!(
                    "{place}: `{parser}` is for messages that arrive; pass the parts of this one on"
                ));
            }
        }
    }
    problems
}

/// Whether a line names the module, or this function of it, alone or in a group.
fn uses(code: &str, module: &str, function: Option<&str>) -> bool {
    let Some(function) = function else { return code.contains(&format!("{module}::")) };
    let is_function = |name: &str| name.trim() == function;
    code.split(&format!("{module}::")).skip(1).any(|rest| match rest.strip_prefix('{') {
        Some(group) => group.split(['{', '}', ',']).any(is_function),
        None => {
            is_function(rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        check(&[Text { path: path.to_owned(), text: text.to_owned() }])
    }

    #[test]
    fn a_planted_print_and_parse_is_refused() {
        let planted = "fn f() {\n    let text = format!(\"GET {url} HTTP/1.1\\r\\n\\r\\n\");\n    \
                       let head = head::parse(text.as_bytes(), &mut lines, limits)?;\n}\n";
        let expected = "crates/proxy/src/features/why.rs:3: `head::parse` is for messages that arrive; pass the parts \
                        of this one on";
        assert_eq!(problems("crates/proxy/src/features/why.rs", planted), [expected]);
        for planted in [
            "use crate::http::head::{self, parse, room};",
            "use crate::http::head::parse;",
            "let head = response::parse(&text, method);",
            "use httparse::EMPTY_HEADER;",
        ] {
            assert_eq!(problems("crates/proxy/src/flow/prefetch.rs", planted).len(), 1, "{planted}");
        }
    }

    #[test]
    fn parsers_stay_where_messages_arrive() {
        let wire = "let parsed = head::parse(unread, &mut lines, limits);";
        assert!(problems("crates/proxy/src/http1/connection.rs", wire).is_empty());
        for text in ["// head::parse(text)", "use crate::http::head::{self, Parsed};", "head::parse_all(x)"] {
            assert!(problems("crates/proxy/src/rpc/page.rs", text).is_empty(), "{text}");
        }
        let tests = format!("#[cfg(test)]\nmod tests {{\n{wire}\n}}\n");
        assert!(problems("crates/proxy/src/rpc/page.rs", &tests).is_empty());
        assert!(problems("crates/lab/src/http.rs", "use httparse::Request;").is_empty());
    }
}
