//! Functions that only a few files may use.
//!
//! Messages of HTTP/1 are parsed only where they arrive: a module that prints a message to have it parsed again can pass
//! its parts on (`RequestHead::compose`, `FieldWriter`). Whether a stored response answers a request is decided only in
//! `flow/decide.rs`: a second decision would differ some day.

use super::Text;
use super::layers::without_tests;

const ROOTS: [&str; 3] = ["crates/proxy/src/", "crates/server/src/", "crates/transport/src/"];

/// Functions, as a module and a function of it (or the name of a crate), the files that may use them, and what others
/// do instead.
const PLACES: &[(&str, Option<&str>, &[&str], &str)] = &[
    ("httparse", None, &["http/chunked.rs", "http/head.rs", "http/response.rs"], ARRIVES),
    ("head", Some("parse"), &["http1/connection.rs"], ARRIVES),
    ("response", Some("parse"), &["origin/connection.rs", "origin/parent.rs"], ARRIVES),
    // Beside the decision: whether a response may be shared with requests that arrived meanwhile, and whether a node may
    // read it from the second tier.
    ("reuse", Some("reuse"), &["flow/decide.rs", "flow/stored.rs", "cluster/tier/explain.rs"], DECIDED),
];

const ARRIVES: &str = "is for messages that arrive; pass the parts of this one on";
const DECIDED: &str = "decides a second time; call `flow::decide`";

/// Returns each use of such a function in a file that may not use it. Tests may.
pub(super) fn check(files: &[Text]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files {
        let path = ROOTS.iter().find_map(|root| file.path.strip_prefix(root));
        let Some(path) = path.filter(|path| !path.ends_with("tests.rs")) else { continue };
        for (number, line) in without_tests(&file.text).lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let misplaced = PLACES.iter().filter(|(module, function, places, _)| {
                !places.contains(&path) && uses(code, module, *function)
            });
            for (module, function, _, instead) in misplaced {
                let name = function.map_or(String::from(*module), |function| format!("{module}::{function}"));
                problems.push(format!("{}:{}: `{name}` {instead}", file.path, number + 1));
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
    fn a_planted_second_decision_is_refused() {
        for planted in [
            "use larder_semantics::reuse::{Reuse, reuse};",
            "let found = reuse::reuse(&freshness, &asked, now);",
        ] {
            let expected = "crates/proxy/src/features/why.rs:1: `reuse::reuse` decides a second time; call `flow::decide`";
            assert_eq!(problems("crates/proxy/src/features/why.rs", planted), [expected]);
        }
        assert!(
            problems("crates/proxy/src/flow/pass.rs", "use larder_semantics::reuse::Failure;").is_empty()
        );
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
