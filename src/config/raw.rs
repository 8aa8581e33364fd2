//! Reads the text of a file into a [`Draft`]: TOML, known keys, values of the right kind.
//!
//! All errors are collected, each with its line. Combinations of values are not checked here.

use std::collections::BTreeSet;
use std::slice;

use larder_proxy::settings::{CertificateFiles, Conditions, Origin};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::draft::rule::RuleDraft;
use super::draft::{DiskDraft, Draft, SiteDraft};
use super::keys::{CACHING, DISK_KEYS, Key, SECTIONS, SITE, TLS_KEYS, TOP};
use super::rules::{EDITS, MATCH, RULE, RuleKey};
use super::written;
use super::{environment, foreign};
use crate::cli::words::hint;

/// Reads `text` of the file called `file` into `draft`. Problems are in the order of their lines.
pub(super) fn read(file: &str, text: &str, draft: &mut Draft) -> Result<(), Vec<String>> {
    let mut reader = Reader { file, text, problems: Vec::new() };
    let (mut document, errors) = DeTable::parse_recoverable(text);
    let unset = environment::expand(document.get_mut());
    match errors.is_empty() && unset.is_empty() {
        true => reader.document(document.get_ref(), draft),
        false => mark_unread(draft),
    }
    reader.syntax(&errors);
    unset.into_iter().for_each(|(start, problem)| reader.problem(start, problem));
    reader.problems.sort_by_key(|(start, _)| *start);
    match reader.problems.is_empty() {
        true => Ok(()),
        false => Err(reader.problems.into_iter().map(|(_, problem)| problem).collect()),
    }
}

/// Marks all tables and keys as unread, so that no problem follows from what is missing.
pub(super) fn mark_unread(draft: &mut Draft) {
    draft.unread.extend(tables().chain(names(TOP)).map(str::to_owned));
}

/// The result of setting a key; `None`: there is no such key.
type Outcome = Option<Result<(), String>>;

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    /// The problems, and the byte at which each begins.
    problems: Vec<(usize, String)>,
}

impl Reader<'_> {
    /// Reports errors of syntax, one for each line: the parser continues after an error, and further errors on the same
    /// line follow from the first.
    fn syntax(&mut self, errors: &[toml::de::Error]) {
        let mut seen = BTreeSet::new();
        for error in errors {
            let start = error.span().map_or(0, |span| span.start);
            if seen.insert(self.place(start)) {
                self.problem(start, error.message().replace('\n', "; "));
            }
        }
    }

    fn document(&mut self, document: &DeTable<'_>, draft: &mut Draft) {
        let known: Vec<_> = names(TOP).chain(tables()).collect();
        for (key, value) in document.iter() {
            let (name, before): (&str, _) = (key.get_ref(), self.problems.len());
            if name == "site" {
                draft.sites.extend(self.tables("site", value, Self::site));
            } else if name == "rule" {
                draft.rules.extend(self.tables("rule", value, Self::rule));
            } else if name == "tls" {
                draft.values.certificates.extend(self.tables("tls", value, Self::certificate));
            } else if name == "disk" {
                draft.disks.extend(self.tables("disk", value, Self::disk));
            } else if let Some(section) = SECTIONS.iter().find(|section| section.name == name) {
                self.section(name, section.keys, value, draft);
            } else if let Some((open, close)) = brackets(value.get_ref()) {
                let hint = match name {
                    "test" => "; it belongs in a file for larder check --test".to_owned(),
                    _ if names(TOP).any(|own| own == name) => {
                        format!("; it is a key: write {name} = .. above all tables")
                    }
                    _ => foreign::table(name).unwrap_or_else(|| hint(name, known.iter().copied())),
                };
                let name = name.escape_debug();
                self.problem(key.span().start, format!("unknown table {open}{name}{close}{hint}"));
            } else {
                let outcome = set(TOP, draft, name, value.get_ref());
                draft.places.insert(name.to_owned(), self.place(key.span().start));
                self.judge(("", name), &known, key.span().start, outcome);
            }
            if self.problems.len() > before {
                draft.unread.insert(name.to_owned());
            }
        }
    }

    fn section(
        &mut self,
        name: &str,
        keys: &'static [Key<Draft>],
        value: &Spanned<DeValue<'_>>,
        draft: &mut Draft,
    ) {
        let Some(table) = value.get_ref().as_table() else {
            return self.problem(value.span().start, format!("'{name}' is a table: write [{name}]"));
        };
        let caching = if name == "forward" { CACHING } else { &[] };
        let rule = (name == "forward").then_some("rule");
        let known: Vec<_> = names(keys).chain(names(caching)).chain(rule).collect();
        for (key, value) in table.iter() {
            if rule == Some(key.get_ref()) {
                draft.forward_rules.extend(self.tables("forward.rule", value, Self::rule));
                continue;
            }
            let outcome = set(keys, draft, key.get_ref(), value.get_ref())
                .or_else(|| set(caching, &mut draft.values.forward.rules, key.get_ref(), value.get_ref()));
            draft.places.insert(path(name, key.get_ref()), self.place(key.span().start));
            self.judge((name, key.get_ref()), &known, key.span().start, outcome);
        }
    }

    /// Reads each of the tables called `name`.
    fn tables<T>(
        &mut self,
        name: &str,
        value: &Spanned<DeValue<'_>>,
        read: fn(&mut Self, &DeTable<'_>, usize) -> T,
    ) -> Vec<T> {
        let Some(tables) = value.get_ref().as_array() else {
            let problem = format!("[{name}] may occur several times: write [[{name}]]");
            self.problem(value.span().start, problem);
            return Vec::new();
        };
        let mut all = Vec::new();
        for table in tables.iter() {
            let start = table.span().start;
            match table.get_ref().as_table() {
                Some(table) => all.push(read(self, table, start)),
                None => self.problem(start, format!("'{name}' is a list of tables: write [[{name}]]")),
            }
        }
        all
    }

    fn disk(&mut self, table: &DeTable<'_>, start: usize) -> DiskDraft {
        let mut disk = DiskDraft { place: self.place(start), ..DiskDraft::default() };
        let known: Vec<_> = names(DISK_KEYS).collect();
        for (key, value) in table.iter() {
            let outcome = set(DISK_KEYS, &mut disk, key.get_ref(), value.get_ref());
            self.judge(("disk", key.get_ref()), &known, key.span().start, outcome);
        }
        if !table.iter().any(|(key, _)| key.get_ref() == "path") {
            self.problem(start, "[[disk]] has no 'path'".to_owned());
        }
        disk
    }

    fn certificate(&mut self, table: &DeTable<'_>, start: usize) -> CertificateFiles {
        let mut files = CertificateFiles { place: self.place(start), ..CertificateFiles::default() };
        let known: Vec<_> = names(TLS_KEYS).collect();
        for (key, value) in table.iter() {
            let outcome = set(TLS_KEYS, &mut files, key.get_ref(), value.get_ref());
            let place = format!("{}: {}", self.place(key.span().start), path("tls", key.get_ref()));
            match &**key.get_ref() {
                "cert" => files.cert_place = place,
                _ => files.key_place = place,
            }
            self.judge(("tls", key.get_ref()), &known, key.span().start, outcome);
        }
        for wanted in ["cert", "key"] {
            if !table.iter().any(|(key, _)| key.get_ref() == wanted) {
                self.problem(start, format!("[[tls]] has no '{wanted}'"));
            }
        }
        files
    }

    fn site(&mut self, table: &DeTable<'_>, start: usize) -> SiteDraft {
        let (mut site, before) =
            (SiteDraft { place: self.place(start), ..SiteDraft::default() }, self.problems.len());
        let known: Vec<_> = names(SITE).chain(names(CACHING)).chain(["rule"]).collect();
        for (key, value) in table.iter() {
            if key.get_ref() == "rule" {
                site.site_rules.extend(self.tables("site.rule", value, Self::rule));
                continue;
            }
            let outcome = set(SITE, &mut site, key.get_ref(), value.get_ref())
                .or_else(|| set(CACHING, &mut site.values.rules, key.get_ref(), value.get_ref()));
            site.places.insert(key.get_ref().to_string(), self.place(key.span().start));
            self.judge(("site", key.get_ref()), &known, key.span().start, outcome);
        }
        let says = |name: &str| table.iter().any(|(key, _)| key.get_ref() == name);
        if !says("origin") && site.site_rules.iter().any(RuleDraft::answers_everything) {
            site.values.origins = vec![Origin::none()];
        } else if !says("origin") {
            let more = if says("rule") {
                "; one whose rules answer everything needs a rule without match that answers, such as respond = 404"
            } else {
                ""
            };
            self.problem(start, format!("[[site]] has no 'origin'{more}"));
        }
        site.control.stale_if_error = says("stale_if_error");
        site.is_unread = self.problems.len() > before;
        site
    }

    fn rule(&mut self, table: &DeTable<'_>, start: usize) -> RuleDraft {
        let before = self.problems.len();
        let text = written::table(table);
        let mut rule = RuleDraft { place: self.place(start), text, ..RuleDraft::default() };
        let inner = ["match", "request", "response", "reply"];
        let known: Vec<_> = RULE.iter().map(|key| key.name).chain(inner).collect();
        for (key, value) in table.iter() {
            match &**key.get_ref() {
                "match" => self.conditions("rule.match", value, &mut rule.conditions),
                "request" => self.inner(("rule.request", EDITS), value, &mut rule.effects.request),
                "response" => self.inner(("rule.response", EDITS), value, &mut rule.effects.response),
                "reply" => self.inner(("rule.reply", EDITS), value, &mut rule.effects.reply),
                name => {
                    let outcome = set_rule(RULE, &mut rule, name, value.get_ref());
                    self.judge(("rule", name), &known, key.span().start, outcome);
                }
            }
        }
        rule.is_unread = self.problems.len() > before;
        rule
    }

    /// Reads a rule's `match`, and in it `not`, which has the same keys: a table, or a list of tables.
    fn conditions(&mut self, name: &str, value: &Spanned<DeValue<'_>>, conditions: &mut Conditions) {
        let Some(table) = value.get_ref().as_table() else {
            return self.problem(
                value.span().start,
                format!(
                    "{name} is a table: write match = {{ path = \"/a/*\" }}, and a rule for each alternative"
                ),
            );
        };
        let known: Vec<_> = MATCH.iter().map(|key| key.name).chain(["not"]).collect();
        for (key, value) in table.iter() {
            if key.get_ref() == "not" && !name.ends_with("not") {
                let each = value.get_ref().as_array().map_or(slice::from_ref(value), |list| &list[..]);
                for value in each {
                    let mut not = Conditions::default();
                    self.conditions("rule.match.not", value, &mut not);
                    conditions.not.push(not);
                }
                continue;
            }
            let outcome = set_rule(MATCH, conditions, key.get_ref(), value.get_ref());
            self.judge((name, key.get_ref()), &known, key.span().start, outcome);
        }
    }

    /// Reads a table within a rule.
    fn inner<T>(
        &mut self,
        (name, keys): (&str, &'static [RuleKey<T>]),
        value: &Spanned<DeValue<'_>>,
        target: &mut T,
    ) {
        let Some(table) = value.get_ref().as_table() else {
            return self.problem(value.span().start, format!("{name} is a table with keys such as 'set'"));
        };
        let known: Vec<_> = keys.iter().map(|key| key.name).collect();
        for (key, value) in table.iter() {
            let outcome = set_rule(keys, target, key.get_ref(), value.get_ref());
            self.judge((name, key.get_ref()), &known, key.span().start, outcome);
        }
    }

    /// Records the result of setting the key `name` of `table`; `None`: there is no such key.
    fn judge(&mut self, (table, name): (&str, &str), known: &[&str], start: usize, outcome: Outcome) {
        let problem = match outcome {
            Some(Ok(())) => return,
            Some(Err(problem)) => format!("{}: {problem}", path(table, name)),
            None => {
                let way = elsewhere(table, name).or_else(|| foreign::way(table, name));
                let way = way.or_else(|| of_process(table, name));
                let hint = way.unwrap_or_else(|| hint(name, known.iter().copied()));
                format!("unknown key '{}' {}{hint}", name.escape_debug(), within(table))
            }
        };
        self.problem(start, problem);
    }

    fn problem(&mut self, start: usize, problem: String) {
        let place = self.place(start);
        self.problems.push((start, format!("{place}: {problem}")));
    }

    /// Returns `FILE:LINE`, with lines counted from 1.
    fn place(&self, start: usize) -> String {
        let before = self.text.as_bytes().get(..start).unwrap_or_default();
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        format!("{}:{line}", self.file)
    }
}

/// Returns the brackets around the name of a table or of a list of tables; `None` if `value` is neither.
fn brackets(value: &DeValue<'_>) -> Option<(&'static str, &'static str)> {
    let is_list =
        |items: &DeArray<'_>| !items.is_empty() && items.iter().all(|item| item.get_ref().is_table());
    match value {
        DeValue::Table(_) => Some(("[", "]")),
        DeValue::Array(items) if is_list(items) => Some(("[[", "]]")),
        _ => None,
    }
}

/// Returns the place of a key that belongs in another table than this one.
fn elsewhere(table: &str, name: &str) -> Option<String> {
    let is_in = |mut keys: Box<dyn Iterator<Item = &'static str>>| keys.any(|own| own == name);
    let of_rules = || is_in(Box::new(RULE.iter().map(|key| key.name)));
    let of_sites = || is_in(Box::new(names(SITE).chain(names(CACHING))));
    match table {
        "site" if of_rules() => Some("; write it in a [[site.rule]] of this site".to_owned()),
        "forward" if of_rules() => Some("; write it in a [[forward.rule]]".to_owned()),
        "rule" if MATCH.iter().any(|key| key.name == name) => {
            Some(format!("; conditions are in match, as in match = {{ {name} = .. }}"))
        }
        "rule" if EDITS.iter().any(|key| key.name == name) => {
            Some(format!("; write it in request, response or reply, as in reply = {{ {name} = .. }}"))
        }
        "rule" if of_sites() => Some("; write it in the [[site]]".to_owned()),
        "rule.match" if of_rules() => Some("; write it in the rule, beside match".to_owned()),
        "rule.request" | "rule.response" | "rule.reply"
            if name.starts_with(|first: char| first.is_ascii_uppercase()) =>
        {
            Some(format!("; write set = {{ {} = .. }}", name.escape_debug()))
        }
        "" if of_sites() => Some("; write it in a [[site]]".to_owned()),
        _ => None,
    }
}

/// Returns the place of a key that belongs above all tables, or in those of the process.
fn of_process(table: &str, name: &str) -> Option<String> {
    let is_of_top = || names(TOP).any(|own| own == name).then(|| "; write it above all tables".to_owned());
    if !matches!(table, "" | "site" | "rule") {
        return is_of_top();
    }
    let own = SECTIONS.iter().filter(|section| names(section.keys).any(|own| own == name)).take(2);
    let own: Vec<_> = own.map(|section| format!("[{}]", section.name)).collect();
    match own.is_empty() {
        false => Some(format!("; write it in {}", own.join(" or "))),
        true => is_of_top(),
    }
}

/// Returns the names of all tables.
fn tables() -> impl Iterator<Item = &'static str> {
    SECTIONS.iter().map(|section| section.name).chain(["disk", "rule", "site", "tls"])
}

fn names<T>(keys: &'static [Key<T>]) -> impl Iterator<Item = &'static str> {
    keys.iter().map(|key| key.name)
}

/// Sets the key `name` of `target`; returns `None` if there is no such key.
fn set<T>(keys: &[Key<T>], target: &mut T, name: &str, value: &DeValue<'_>) -> Outcome {
    keys.iter().find(|key| key.name == name).map(|key| (key.set)(target, value))
}

/// Sets the key `name` of a rule's `target`; returns `None` if there is no such key.
fn set_rule<T>(keys: &[RuleKey<T>], target: &mut T, name: &str, value: &DeValue<'_>) -> Outcome {
    keys.iter().find(|key| key.name == name).map(|key| (key.set)(target, value))
}

/// Returns the name of a key in errors: `limits.head`, or `threads` above all tables.
fn path(table: &str, name: &str) -> String {
    if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") }
}

fn within(table: &str) -> String {
    match table {
        "" => "above all tables".to_owned(),
        "site" | "tls" | "disk" => format!("in [[{table}]]"),
        "rule" => "in this rule".to_owned(),
        _ => match table.strip_prefix("rule.") {
            Some(inner) => format!("in '{inner}' of this rule"),
            None => format!("in [{table}]"),
        },
    }
}
