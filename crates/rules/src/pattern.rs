//! Patterns of text: literal text, text in which `*` stands for any characters, or a regular expression.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use larder_semantics::readings::{self, folded};
use regex::bytes::{Regex, RegexBuilder};

/// A pattern, which has to match all of a text.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// The pattern as written.
    text: Box<str>,
    kind: PatternKind,
    folding: Folding,
}

/// The bytes that are equal when texts are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Folding {
    /// The same bytes only.
    None,
    /// Letters of ASCII in any case.
    Case,
    /// The bytes that may be equal in a name ([`readings::folded`]).
    Name,
}

#[derive(Clone, Debug)]
enum PatternKind {
    /// The text itself.
    Exact,
    /// The parts between asterisks: at least two. The first is a prefix, the last a suffix.
    Glob(Box<[Box<str>]>),
    Regex(Regex),
    Lines(Arc<Lines>),
}

/// The patterns of a file. Copies share them.
#[derive(Debug)]
struct Lines {
    texts: HashSet<Box<[u8]>, FixedState>,
    /// An expression for all that are not texts alone.
    others: Option<Regex>,
}

/// The largest automaton of a regular expression, in bytes, and the most bytes of visited states that each
/// thread keeps. Beyond that, matching is slower, though still in linear time.
const LARGEST: usize = 1 << 20;
const LARGEST_CACHE: usize = 128 << 10;

impl Pattern {
    /// Parses `text`: `~` and a regular expression that may match anywhere in a text, or text in which each
    /// `*` stands for any number of characters.
    ///
    /// # Errors
    /// The error of the regular expression, in one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::build(text, Folding::None)
    }

    /// Parses a pattern that disregards the case of ASCII letters.
    ///
    /// # Errors
    /// The same as for [`parse`](Self::parse).
    pub fn parse_folding(text: &str) -> Result<Self, String> {
        Self::build(text, Folding::Case)
    }

    /// Parses `text` of a file called `source`, a pattern on each line: it matches what one of them matches. `#` begins a line
    /// that is a comment.
    ///
    /// # Errors
    /// The number of the first invalid line, from 1, and what is wrong with it.
    pub fn parse_lines(source: &str, text: &str) -> Result<Self, (usize, String)> {
        let (mut texts, mut others) = (HashSet::with_hasher(FixedState::with_seed(0)), Vec::new());
        for (line, number) in text.lines().map(str::trim).zip(1..) {
            match Self::parse(line).map_err(|why| (number, why))?.kind {
                _ if line.is_empty() || line.starts_with('#') => {}
                PatternKind::Exact => _ = texts.insert(line.as_bytes().into()),
                _ => others.push(expression(line)),
            }
        }
        let others = (!others.is_empty()).then(|| compile(&others.join("|"), false)).transpose();
        let together = |why| (1, format!("its patterns with '*' and '~' together: {why}"));
        let lines = Arc::new(Lines { texts, others: others.map_err(together)? });
        let (text, kind) = (format!("@{source}").into(), PatternKind::Lines(lines));
        Ok(Self { text, kind, folding: Folding::None })
    }

    /// Returns the file that it was read from.
    pub fn source(&self) -> Option<&str> {
        self.text.strip_prefix('@').filter(|_| matches!(self.kind, PatternKind::Lines(..)))
    }

    fn build(text: &str, folding: Folding) -> Result<Self, String> {
        let kind = match text.strip_prefix('~') {
            Some(expression) => PatternKind::Regex(regex(expression.trim_start(), folding == Folding::Case)?),
            None if text.contains('*') => PatternKind::Glob(text.split('*').map(Box::from).collect()),
            None => PatternKind::Exact,
        };
        Ok(Self { text: text.into(), kind, folding })
    }

    /// Whether it matches all of `text`.
    pub fn matches(&self, text: &[u8]) -> bool {
        match &self.kind {
            PatternKind::Exact => self.folding.equal(self.text.as_bytes(), text),
            PatternKind::Glob(parts) => self.folding.glob(parts, text),
            PatternKind::Regex(regex) => regex.is_match(text),
            PatternKind::Lines(lines) => {
                lines.texts.contains(text) || lines.others.as_ref().is_some_and(|regex| regex.is_match(text))
            }
        }
    }

    /// Whether it matches one of the names that origins may read in the name of a cookie or parameter.
    pub fn matches_name(&self, written: &[u8]) -> bool {
        readings::any_name(written, |name| match &self.kind {
            PatternKind::Exact => Folding::Name.equal(self.text.as_bytes(), name),
            PatternKind::Glob(parts) => Folding::Name.glob(parts, name),
            PatternKind::Regex(regex) => {
                regex.is_match(name) || regex.is_match(&name.iter().copied().map(folded).collect::<Vec<u8>>())
            }
            PatternKind::Lines(..) => self.matches(name),
        })
    }

    /// Returns the prefix that all matching texts have, and whether it is the only matching text. Empty for a
    /// regular expression.
    pub fn literal(&self) -> (&str, bool) {
        match &self.kind {
            PatternKind::Exact => (&self.text, true),
            PatternKind::Glob(parts) => (parts.first().map_or("", |first| first), false),
            PatternKind::Regex(_) | PatternKind::Lines(..) => ("", false),
        }
    }

    /// Returns the ranges of `text` that the asterisks of a glob, or the groups of a regular expression,
    /// match, in order; `None` if it does not match. Groups without a match are empty.
    pub fn captures(&self, text: &[u8]) -> Option<Vec<Range<usize>>> {
        match &self.kind {
            PatternKind::Exact | PatternKind::Lines(..) => self.matches(text).then(Vec::new),
            PatternKind::Glob(parts) => self.stars(parts, text),
            PatternKind::Regex(regex) => {
                let groups = regex.captures(text)?;
                Some(groups.iter().skip(1).map(|group| group.map_or(0..0, |found| found.range())).collect())
            }
        }
    }

    /// Whether this pattern matches every text that `other` matches, as far as that is easy to determine.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (&self.kind, &other.kind) {
            (_, PatternKind::Exact) => self.matches(other.text.as_bytes()),
            (PatternKind::Glob(parts), PatternKind::Glob(_)) if parts.len() == 2 && parts[1].is_empty() => {
                let (prefix, _) = other.literal();
                prefix.len() >= parts[0].len()
                    && self.folding.equal(parts[0].as_bytes(), &prefix.as_bytes()[..parts[0].len()])
            }
            _ => self.text == other.text,
        }
    }

    /// Returns the range that each asterisk matches: as short as possible, except for the last.
    fn stars(&self, parts: &[Box<str>], text: &[u8]) -> Option<Vec<Range<usize>>> {
        let ([first, middle @ .., last], true) = (parts, self.folding.glob(parts, text)) else { return None };
        let (mut start, end) = (first.len(), text.len() - last.len());
        let mut stars = Vec::with_capacity(parts.len() - 1);
        for part in middle {
            let rest = &text[start..end];
            let length = if part.is_empty() { 0 } else { self.folding.find(part.as_bytes(), rest)? };
            stars.push(start..start + length);
            start += length + part.len();
        }
        stars.push(start..end);
        Some(stars)
    }
}

impl Folding {
    fn glob(self, parts: &[Box<str>], text: &[u8]) -> bool {
        let [first, middle @ .., last] = parts else { return false };
        let fits = first.len() + last.len() <= text.len()
            && self.equal(first.as_bytes(), &text[..first.len()])
            && self.equal(last.as_bytes(), &text[text.len() - last.len()..]);
        if !fits {
            return false;
        }
        let mut rest = &text[first.len()..text.len() - last.len()];
        for part in middle.iter().filter(|part| !part.is_empty()) {
            match self.find(part.as_bytes(), rest) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        true
    }

    fn equal(self, one: &[u8], other: &[u8]) -> bool {
        match self {
            Self::None => one == other,
            Self::Case => one.eq_ignore_ascii_case(other),
            Self::Name => readings::is_same_name(one, other),
        }
    }

    fn find(self, part: &[u8], text: &[u8]) -> Option<usize> {
        match self {
            Self::None => memchr::memmem::find(text, part),
            _ => text.windows(part.len()).position(|window| self.equal(part, window)),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Files are equal if their content is, so that a changed one is noticed.
impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        let has_same_lines = || match (&self.kind, &other.kind) {
            (PatternKind::Lines(own), PatternKind::Lines(lines)) => {
                let [one, other] = [own, lines].map(|lines| lines.others.as_ref().map(Regex::as_str));
                own.texts == lines.texts && one == other
            }
            _ => true,
        };
        self.text == other.text && self.folding == other.folding && has_same_lines()
    }
}

impl Eq for Pattern {}

/// Returns the regular expression for a line that is no plain text.
fn expression(line: &str) -> String {
    if let Some(expression) = line.strip_prefix('~') {
        let group = format!("(?:{})", expression.trim_start());
        // A comment of (?x) takes the end of the group.
        let is_open = group.contains('#') && compile(&group, false).is_err();
        return if is_open { format!("(?:{}\n)", expression.trim_start()) } else { group };
    }
    let begin = if line.starts_with('*') { "" } else { "^" };
    let end = if line.ends_with('*') { "" } else { "$" };
    let parts: Vec<_> = line.trim_matches('*').split('*').map(regex::escape).collect();
    format!("{begin}{}{end}", parts.join(".*"))
}

fn regex(expression: &str, folds: bool) -> Result<Regex, String> {
    compile(expression, folds)
        .map_err(|cause| format!("'{}' is not a regular expression: {cause}", expression.escape_debug()))
}

/// Returns the regular expression, or its error without its text.
fn compile(expression: &str, folds: bool) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(expression);
    let regex = builder
        .case_insensitive(folds)
        .unicode(false)
        // A line end in a path or value is a character like others.
        .dot_matches_new_line(true)
        .size_limit(LARGEST)
        .dfa_size_limit(LARGEST_CACHE)
        .build();
    regex.map_err(|error| {
        let text = error.to_string();
        // The first lines draw the expression; the last one has the error.
        text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_file_matches_what_one_of_its_lines_matches() {
        let file = |text| Pattern::parse_lines("bots.txt", text).unwrap();
        let bots = file("# known\n*GPTBot*\n\nCC.Bot/*\n~(?i)scrap(er|y)\n key \n*x");
        for (text, matches) in [
            ("a GPTBot/1.0", true),
            ("CC.Bot/2", true),
            ("CCxBot/2", false),
            ("a SCRAPY b", true),
            ("key", true),
            ("akey", false),
            ("ax", true),
            ("xa", false),
            ("", false),
            ("# known", false),
        ] {
            assert_eq!(bots.matches(text.as_bytes()), matches, "{text}");
        }
        assert!(!file("# none").matches(b"") && !file("").matches(b"a"));
        assert_ne!(file("a"), file("b"));
        assert_eq!((bots.source(), Pattern::parse("@a").unwrap().source()), (Some("bots.txt"), None));
        assert_eq!(Pattern::parse_lines("bots.txt", "a\n~(").unwrap_err().0, 2);
        let commented = file("~(?x)bot # all bots\n~[#]x\n*spider");
        let matches = ["a bot", "#x", "a spider", "x"].map(|text| commented.matches(text.as_bytes()));
        assert_eq!(matches, [true, true, true, false]);
        let large = Pattern::parse_lines("bots.txt", &"~(a{99}){99}\n".repeat(99)).unwrap_err();
        assert!(large.1.starts_with("its patterns with '*' and '~' together: "), "{}", large.1);
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        let cases = [
            ("/a", "/a", true),
            ("/a", "/ab", false),
            ("/a/*", "/a/", true),
            ("/a/*", "/a/b/c", true),
            ("/a/*", "/a", false),
            ("*.php", "/x/y.php", true),
            ("*.php", "/x.php5", false),
            ("/a/*/c", "/a/b/b/c", true),
            ("/a/*/c", "/a/c", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "ba", false),
            ("aa*aa", "aaa", false),
            ("*", "", true),
            ("", "", true),
            ("~^/user/[0-9]+$", "/user/17", true),
            ("~ ^/user/[0-9]+$", "/user/17a", false),
            ("~admin", "/x/admin/y", true),
            ("~^/api/(.*)$", "/api/x\n", true),
            ("~^/api/.$", "/api/\r", true),
            ("~^/user/[0-9]+$", "/user/17\n", false),
            ("/a/*", "/a/\n", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(
                Pattern::parse(pattern).unwrap().matches(text.as_bytes()),
                expected,
                "{pattern} {text}"
            );
        }
        assert!(Pattern::parse_folding("*.Example.COM").unwrap().matches(b"WWW.example.com"));
    }

    #[test]
    fn stars_and_groups_are_captured() {
        let cases: [(&str, &str, Option<&[&str]>); 6] = [
            ("/old/*", "/old/a/b", Some(&["a/b"])),
            ("/*/x/*.html", "/a/x/b.html", Some(&["a", "b"])),
            ("/a", "/a", Some(&[])),
            ("/a", "/b", None),
            ("~^/u/([0-9]+)(/x)?", "/u/17", Some(&["17", ""])),
            ("~^/u/([0-9]+)", "/v", None),
        ];
        for (pattern, text, expected) in cases {
            let found = Pattern::parse(pattern).unwrap().captures(text.as_bytes());
            let found = found.map(|ranges| ranges.into_iter().map(|range| &text[range]).collect::<Vec<_>>());
            let expected = expected.map(<[_]>::to_vec);
            assert_eq!(found, expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_bad_expression_is_reported_in_one_line() {
        let error = Pattern::parse("~(a").unwrap_err();
        assert_eq!(error, "'(a' is not a regular expression: unclosed group");
        assert!(Pattern::parse("~(a{1000}){1000}").unwrap_err().lines().count() == 1);
    }

    proptest! {
        #[test]
        fn a_glob_matches_as_its_expression_does(glob in "[ab*]{0,6}", text in "[ab]{0,8}") {
            let expression = format!("^{}$", glob.replace('*', ".*"));
            let expected = Regex::new(&expression).unwrap().is_match(text.as_bytes());
            prop_assert_eq!(Pattern::parse(&glob).unwrap().matches(text.as_bytes()), expected);
        }

        #[test]
        fn a_pattern_matches_all_text_of_a_pattern_that_it_covers(one in "[ab*]{0,4}", other in "[ab*]{0,4}", text in "[ab]{0,6}") {
            let (one, other) = (Pattern::parse(&one).unwrap(), Pattern::parse(&other).unwrap());
            if one.covers(&other) && other.matches(text.as_bytes()) {
                prop_assert!(one.matches(text.as_bytes()));
            }
        }

        #[test]
        fn any_bytes_are_matched_without_a_panic(pattern: String, text: Vec<u8>) {
            if let Ok(pattern) = Pattern::parse(&pattern) {
                pattern.matches(&text);
            }
        }
    }
}
