//! `No-Vary-Search`: the queries of one path that a response answers (draft-ietf-httpbis-no-vary-search).
//!
//! With this field, an origin declares that parameters, or their order, make no difference. Queries are compared as
//! lists of names and values, as `application/x-www-form-urlencoded` reads them. The lookup of stored responses is elsewhere.

use std::borrow::Cow;

use sfv::{BareItem, Dictionary, Item, ListEntry, Parser};

use crate::fields::{Fields, joined};
use crate::readings;
use crate::wire::put_part;

/// The name of the field.
pub const FIELD: &str = "no-vary-search";
/// The longest field with an effect, in bytes: it is compared with each query.
pub const LONGEST: usize = 4 << 10;

/// The rules for comparing queries ("URL variation config") that are not compared byte by byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variation {
    /// Names of parameters, sorted.
    names: Vec<Box<[u8]>>,
    /// Whether only these parameters count (`except`), instead of all others (`params`).
    only_these: bool,
    order_counts: bool,
}

impl Variation {
    /// Returns the variation of a response. `None` without the field, and for one without an effect: queries
    /// are compared byte by byte then.
    pub fn of(response: &impl Fields) -> Option<Self> {
        Self::parse(&field(response)?)
    }

    /// Returns the variation for a value of the field.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let members = Parser::new(value).parse::<Dictionary>().ok()?;
        let order_counts = match members.get("key-order") {
            None => true,
            Some(ListEntry::Item(item)) => match item.bare_item {
                BareItem::Boolean(ignores_order) => !ignores_order,
                _ => return None,
            },
            Some(ListEntry::InnerList(_)) => return None,
        };
        let (names, only_these) = match (members.get("params"), members.get("except")) {
            (Some(_), Some(_)) => return None,
            (Some(params), None) => (names(params)?, false),
            (None, Some(except)) => (names(except)?, true),
            // The draft's algorithm ignores `key-order` here; its examples do not.
            (None, None) => (Vec::new(), false),
        };
        let is_default = order_counts && !only_these && names.is_empty();
        (!is_default).then_some(Self { names, only_these, order_counts })
    }

    /// Returns the significant part of `query`: the same bytes for equivalent queries, and for no others. An
    /// absent query equals an empty one.
    pub fn canonical(&self, query: Option<&[u8]>) -> Vec<u8> {
        let mut pairs: Vec<_> =
            pairs(query.unwrap_or_default()).filter(|(name, _)| self.counts(name)).collect();
        if !self.order_counts {
            // A stable sort, as in the draft; any order of names makes the same queries equal.
            pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
        }
        let mut canonical = Vec::with_capacity(query.map_or(0, <[u8]>::len) + 2 * pairs.len());
        for (name, value) in pairs {
            put_part(&mut canonical, &name);
            put_part(&mut canonical, &value);
        }
        canonical
    }

    /// Whether both queries are equivalent.
    pub fn equivalent(&self, one: Option<&[u8]>, other: Option<&[u8]>) -> bool {
        one == other || self.canonical(one) == self.canonical(other)
    }

    fn counts(&self, name: &[u8]) -> bool {
        self.names.binary_search_by(|known| (**known).cmp(name)).is_ok() == self.only_these
    }
}

/// Returns the field's value, all of its lines together; `None` if there is none, or it is too long.
pub fn field(response: &impl Fields) -> Option<Cow<'_, [u8]>> {
    joined(response, FIELD).filter(|value| value.len() <= LONGEST)
}

/// Returns the names in an inner list of strings, sorted.
fn names(member: &ListEntry) -> Option<Vec<Box<[u8]>>> {
    let ListEntry::InnerList(list) = member else { return None };
    let name = |item: &Item| match &item.bare_item {
        BareItem::String(string) => Some(decoded(string.as_str().as_bytes()).into()),
        _ => None,
    };
    let mut names = list.items.iter().map(name).collect::<Option<Vec<Box<[u8]>>>>()?;
    names.sort_unstable();
    names.dedup();
    Some(names)
}

/// Iterates over the names and values of a query (the `application/x-www-form-urlencoded` parser of the URL standard).
fn pairs(query: &[u8]) -> impl Iterator<Item = (Cow<'_, [u8]>, Cow<'_, [u8]>)> {
    query.split(|&byte| byte == b'&').filter(|part| !part.is_empty()).map(|part| {
        let at = part.iter().position(|&byte| byte == b'=');
        let (name, value) = at.map_or((part, &[][..]), |at| (&part[..at], &part[at + 1..]));
        (decoded(name), decoded(value))
    })
}

/// Decodes `+` as a space, percent-encoding, and UTF-8; invalid UTF-8 becomes U+FFFD.
fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if text.is_ascii() && !text.iter().any(|byte| matches!(byte, b'+' | b'%')) {
        return Cow::Borrowed(text);
    }
    let bytes = readings::decode(text);
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned().into_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fields::HeadLines;

    fn said(value: &str) -> Option<Variation> {
        Variation::of(&HeadLines(format!("No-Vary-Search: {value}\r\n").as_bytes()))
    }

    fn names(variation: &Variation) -> (Vec<&str>, bool, bool) {
        let names = variation.names.iter().map(|name| std::str::from_utf8(name).unwrap()).collect();
        (names, variation.only_these, variation.order_counts)
    }

    #[test]
    fn section_5_the_field_is_read() {
        for (value, expected) in [
            (r#"params=("a")"#, (vec!["a"], false, true)),
            (r#"params=("b" "a" "b")"#, (vec!["a", "b"], false, true)),
            (r#"except=("x")"#, (vec!["x"], true, true)),
            ("except=()", (vec![], true, true)),
            ("key-order", (vec![], false, false)),
            ("key-order=?1", (vec![], false, false)),
            ("key-order;q=1, params=()", (vec![], false, false)),
            (r#"except=("x"), key-order"#, (vec!["x"], true, false)),
            (r#"key-order, params=("a";b "c");d"#, (vec!["a", "c"], false, false)),
            (r#"other="unknown", params=("a"), date=@5"#, (vec!["a"], false, true)),
            (r#"params=("a"), params=("b")"#, (vec!["b"], false, true)),
            (r#"params=1, params=("b")"#, (vec!["b"], false, true)),
            (
                r#"params=("%C3%A9+%E6%B0%97" "a b" "%zz")"#,
                (vec!["%zz", "a b", "\u{e9} \u{6c17}"], false, true),
            ),
            ("params=(\"a\")\r\nEtag: x\r\nno-vary-search: key-order", (vec!["a"], false, false)),
        ] {
            let variation = said(value).unwrap_or_else(|| panic!("{value} has no effect"));
            assert_eq!(names(&variation), expected, "{value}");
        }
    }

    #[test]
    fn section_5_what_is_anything_else_has_no_effect() {
        let long = format!("params=(\"{}\")", "a".repeat(LONGEST));
        for value in [
            "",
            "unknown-key",
            "key-order=?0",
            "params=()",
            "key-order=?0, params=()",
            r#"key-order="not a boolean""#,
            "key-order=1, params=(\"a\")",
            "key-order=(\"a\")",
            r#"params="not an inner list""#,
            "params=(not-a-string)",
            "params=(\"a\" b)",
            "params=?0",
            "params=?1",
            "params",
            r#"params, except=("x")"#,
            r#"params=("a"), except=("x")"#,
            "params=(), except=()",
            r#"except="not an inner list""#,
            "except=(not-a-string)",
            "except=?1",
            r#"params=("a""#,
            r#"params=("a"),"#,
            r#"params=("a") except=("b")"#,
            r#"Params=("a")"#,
            "params=(\"\u{e9}\")",
            &long,
        ] {
            assert_eq!(said(value), None, "{value}");
        }
        assert_eq!(Variation::of(&HeadLines(b"Vary: a\r\n")), None);
    }

    #[test]
    fn section_6_queries_are_compared() {
        let (utm, only, order) = (r#"params=("utm" "\"")"#, r#"except=("id")"#, "key-order");
        for (value, one, other, expected) in [
            (utm, None, Some("utm=1"), true),
            (utm, Some("a=1&utm=2&b"), Some("utm&a=1&b=&utm"), true),
            (utm, Some("a=1&b=2"), Some("b=2&a=1"), false),
            (utm, Some("a=1"), Some("a=2"), false),
            (utm, Some("a=1"), Some("a=1&a=1"), false),
            (utm, Some("Utm=1"), Some("a=1"), false),
            (utm, Some("%75tm=1"), None, true),
            (utm, Some("%22=1"), None, true),
            (only, Some("id=1&x=2"), Some("y=3&id=1"), true),
            (only, Some("id=1"), Some("id=2"), false),
            (only, Some("id=1&id=2"), Some("id=2&id=1"), false),
            ("except=()", Some("id=1"), None, true),
            (order, Some("b=1&a=2"), Some("a=2&b=1"), true),
            (order, Some("a=1&b=3&a=2"), Some("b=3&a=1&a=2"), true),
            (order, Some("a=1&a=2"), Some("a=2&a=1"), false),
            (order, Some("a=1&b"), Some("a=1"), false),
            // The examples of the draft.
            (order, None, Some(""), true),
            (order, Some("a=x"), Some("%61=%78"), true),
            (order, Some("a=\u{e9}"), Some("a=%C3%A9"), true),
            (order, Some("a=%f6"), Some("a=%ef%bf%bd"), true),
            (order, Some("a=x&&&&"), Some("a=x"), true),
            (order, Some("a="), Some("a"), true),
            (order, Some("a=%20"), Some("a=+"), true),
            (order, Some("a=%2B"), Some("a=+"), false),
            (order, Some("a=%26b"), Some("a=&b"), false),
            (order, Some("a=b=c"), Some("a=b%3Dc"), true),
            (order, Some("a=%"), Some("a=%25"), true),
            (order, Some("=a"), Some("a"), false),
            (order, Some("a;b"), Some("b;a"), false),
            (r#"params=("%C3%A9+%E6%B0%97")"#, Some("%C3%A9%20\u{6c17}=3"), Some("\u{e9}+%E6%B0%97=4"), true),
        ] {
            let (a, b) = (one.map(str::as_bytes), other.map(str::as_bytes));
            assert_eq!(said(value).unwrap().equivalent(a, b), expected, "{value}: {one:?} and {other:?}");
        }
    }

    /// The algorithm of section 6 of the draft, on strings.
    fn by_the_draft(variation: &Variation, one: Option<&str>, other: Option<&str>) -> bool {
        let (listed, only_these, order_counts) = names(variation);
        let mut lists = [one, other].map(|query| {
            let mut list = Vec::new();
            for sequence in query.unwrap_or("").split('&') {
                if sequence.is_empty() {
                    continue;
                }
                let (name, value) = sequence.split_once('=').unwrap_or((sequence, ""));
                let [name, value] = [name, value].map(|text| {
                    let text = text.replace('+', " ");
                    let (mut bytes, mut at) = (Vec::new(), 0);
                    while at < text.len() {
                        let digits =
                            text.as_bytes().get(at + 1..at + 3).and_then(|two| std::str::from_utf8(two).ok());
                        let digits = digits.filter(|two| two.bytes().all(|byte| byte.is_ascii_hexdigit()));
                        match digits.filter(|_| text.as_bytes()[at] == b'%') {
                            Some(digits) => {
                                bytes.push(u8::from_str_radix(digits, 16).unwrap());
                                at += 3;
                            }
                            None => {
                                bytes.push(text.as_bytes()[at]);
                                at += 1;
                            }
                        }
                    }
                    String::from_utf8_lossy(&bytes).into_owned()
                });
                if listed.contains(&name.as_str()) == only_these {
                    list.push((name, value));
                }
            }
            list
        });
        if !order_counts {
            lists
                .iter_mut()
                .for_each(|list| list.sort_by_key(|(name, _)| name.encode_utf16().collect::<Vec<_>>()));
        }
        lists[0] == lists[1]
    }

    fn variation() -> impl Strategy<Value = Variation> {
        let names = prop::collection::vec("[a-c]|%6[1-3]|%C3%A9|[+]|%|", 0..3);
        (names, any::<bool>(), any::<bool>()).prop_filter_map(
            "has no effect",
            |(names, only_these, order)| {
                let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
                let member = if only_these { "except" } else { "params" };
                said(&format!("{member}=({}), key-order=?{}", names.join(" "), u8::from(order)))
            },
        )
    }

    fn query() -> impl Strategy<Value = Option<String>> {
        let part = "(([a-c]|%6[1-3]|\u{e9}|%C3%A9|%C3|[+]|%20|%|)(=[12+]?|)|=|)";
        prop::option::of(prop::collection::vec(part, 0..5).prop_map(|parts| parts.join("&")))
    }

    fn bytes(query: Option<&String>) -> Option<&[u8]> {
        query.map(String::as_bytes)
    }

    proptest! {
        #[test]
        fn queries_with_equal_canonical_forms_are_equivalent_by_the_draft(
            variation in variation(), one in query(), other in query(),
        ) {
            let expected = by_the_draft(&variation, one.as_deref(), other.as_deref());
            let (one, other) = (bytes(one.as_ref()), bytes(other.as_ref()));
            prop_assert_eq!(variation.canonical(one) == variation.canonical(other), expected);
            prop_assert_eq!(variation.equivalent(one, other), expected);
        }

        #[test]
        fn equivalence_is_one(variation in variation(), a in query(), b in query(), c in query()) {
            let (a, b, c) = (bytes(a.as_ref()), bytes(b.as_ref()), bytes(c.as_ref()));
            prop_assert!(variation.equivalent(a, a));
            prop_assert_eq!(variation.equivalent(a, b), variation.equivalent(b, a));
            if variation.equivalent(a, b) && variation.equivalent(b, c) {
                prop_assert!(variation.equivalent(a, c));
            }
        }

        #[test]
        fn parameters_left_out_by_no_vary_search_make_no_difference(query in query(), value in "[a-z0-9%+=]{0,8}", at in 0..6_usize) {
            let variation = said(r#"params=("left-out")"#).unwrap();
            let mut parts: Vec<_> = query.iter().flat_map(|query| query.split('&')).map(str::to_owned).collect();
            parts.insert(at.min(parts.len()), format!("left-out={value}"));
            prop_assert!(variation.equivalent(bytes(query.as_ref()), Some(parts.join("&").as_bytes())));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(value: Vec<u8>, one: Vec<u8>, other: Vec<u8>) {
            Variation::parse(&value);
            let variation = said("key-order").unwrap();
            let same = variation.canonical(Some(&one)) == variation.canonical(Some(&other));
            prop_assert_eq!(variation.equivalent(Some(&one), Some(&other)), same);
        }
    }
}
