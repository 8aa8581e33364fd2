//! `larder check --test`: compares the user's expectations of a config with its effects.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use larder_proxy::Settings;
use larder_proxy::base::whole_file;
use larder_proxy::dry_run::{Case, DryRun, Forecast};
use larder_proxy::settings::Role;
use larder_semantics::status::Why;
use serde::Deserialize;
use toml::Spanned;

use crate::cli::Failure;
use crate::cli::files::unread;
use crate::cli::units::{parse_duration, show_duration};
use crate::cli::words::hint;

/// The values of [`Expectation::outcome`].
const OUTCOMES: &[&str] = &["stored", "not-stored", "passed", "answered", "refused", "asked"];

/// A file of expectations.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    test: Vec<Spanned<Test>>,
}

/// A request, the origin's answer, and the expected results.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Test {
    /// `GET http://site/path`.
    request: String,
    #[serde(default)]
    fields: BTreeMap<String, String>,
    client: Option<IpAddr>,
    /// `reverse` or `forward`.
    role: Option<String>,
    origin: Option<Answer>,
    expect: Expectation,
}

/// The origin's answer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    status: u16,
    #[serde(default)]
    fields: BTreeMap<String, String>,
}

/// The expected results; absent ones may have any value.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expectation {
    rules: Option<Vec<String>>,
    url: Option<String>,
    /// The URL for which an origin is asked; empty text: none is asked.
    asks: Option<String>,
    outcome: Option<String>,
    reason: Option<String>,
    status: Option<u16>,
    lifetime: Option<String>,
    /// Fields of the request as the origin sees them; empty text: absent.
    #[serde(default)]
    sends: BTreeMap<String, String>,
    /// Fields of the reply; empty text: absent.
    #[serde(default)]
    fields: BTreeMap<String, String>,
}

/// Compares the expectations in the file at `path` with the results of `settings`, and returns the number of tests.
/// Errors: [`Failure::Refused`]: the file cannot be read, or is not a list of tests. [`Failure::Failed`]: the
/// differences, one line each.
pub(super) fn run(path: &Path, settings: Settings) -> Result<usize, Failure> {
    let shown = path.display().to_string();
    let text = whole_file::text(path, whole_file::LARGEST)
        .map_err(|error| Failure::Refused(format!("cannot read {shown}: {}", unread(&error))))?;
    let line = |start: usize| {
        1 + text.as_bytes()[..start.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
    };
    let file: File = toml::from_str(&text).map_err(|error| {
        let place = error.span().map_or(1, |span| line(span.start));
        let is_single =
            text.parse::<toml::Table>().is_ok_and(|file| file.get("test").is_some_and(toml::Value::is_table));
        let why = match is_single {
            true => "[test] may occur several times: write [[test]]".to_owned(),
            false => error.message().replace('\n', "; "),
        };
        Failure::Refused(format!("{shown}:{place}: {why}"))
    })?;
    if file.test.is_empty() {
        return Err(Failure::Refused(format!("{shown}: there is no [[test]] in it")));
    }
    let dry_run = DryRun::new(settings);
    let mut differences = Vec::new();
    for test in &file.test {
        let place = format!("{shown}:{}", line(test.span().start));
        let test = test.get_ref();
        let found = case(test).and_then(|case| dry_run.of(&case)).and_then(|found| compare(test, &found));
        match found {
            Ok(different) => {
                differences.extend(different.iter().map(|what| format!("{place}: {}: {what}", test.request)))
            }
            Err(why) => differences.push(format!("{place}: {}: {why}", test.request)),
        }
    }
    if differences.is_empty() { Ok(file.test.len()) } else { Err(Failure::Failed(differences.join("\n"))) }
}

fn case(test: &Test) -> Result<Case, String> {
    let (method, url) = test.request.split_once(' ').unwrap_or(("GET", &test.request));
    let method =
        method.parse::<Method>().map_err(|_| format!("'{}' is not a method", method.escape_debug()))?;
    let answer = match &test.origin {
        None => None,
        Some(Answer { status, fields: lines }) => {
            let status =
                StatusCode::from_u16(*status).map_err(|_| format!("{status} is not a status code"))?;
            Some((status, fields(lines)?))
        }
    };
    let unknown = |name: &str| format!("unknown role '{}'; known: reverse forward", name.escape_debug());
    let role = test.role.as_deref().map(|name| Role::of_name(name).ok_or_else(|| unknown(name)));
    Ok(Case {
        role: role.transpose()?,
        url: url.trim().to_owned(),
        method,
        fields: fields(&test.fields)?,
        client: test.client,
        answer,
    })
}

fn fields(lines: &BTreeMap<String, String>) -> Result<HeaderMap, String> {
    let mut map = HeaderMap::new();
    for (name, value) in lines {
        let field = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
        let (name, value) = field
            .ok_or_else(|| format!("'{}: {}' is not a field", name.escape_debug(), value.escape_debug()))?;
        map.append(name, value);
    }
    Ok(map)
}

/// Refuses a word that no result has. `list` is the part of the error that says where the words are listed.
fn is_known<'a>(
    what: &str,
    word: Option<&String>,
    known: impl Iterator<Item = &'a str> + Clone,
    list: &str,
) -> Result<(), String> {
    match word.filter(|word| !known.clone().any(|known| known == *word)) {
        Some(word) => Err(format!("unknown {what} '{}'{}; {list}", word.escape_debug(), hint(word, known))),
        None => Ok(()),
    }
}

/// Returns the differences, each in a few words.
fn compare(test: &Test, found: &Forecast) -> Result<Vec<String>, String> {
    let Expectation { rules, url, asks, outcome, reason, status, lifetime, sends, fields } = &test.expect;
    is_known(
        "outcome",
        outcome.as_ref(),
        OUTCOMES.iter().copied(),
        &format!("known: {}", OUTCOMES.join(" ")),
    )?;
    let reasons = Why::ALL.iter().map(|why| why.token()).chain(["none"]);
    is_known("reason", reason.as_ref(), reasons, "larder why --reasons lists them")?;
    let mut differences = Vec::new();
    let mut compare = |what: &str, expected: Option<String>, found: String| {
        if let Some(expected) = expected.filter(|expected| *expected != found) {
            differences.push(format!("{what} is {found}, expected {expected}"));
        }
    };
    let none = || "none".to_owned();
    let list = |rules: &[String]| if rules.is_empty() { none() } else { rules.join(", ") };
    compare("the list of rules", rules.as_deref().map(list), list(&found.rules));
    compare("the url", url.clone(), found.url.clone());
    let is_asked = |url: &String| found.asks.contains(url) || (url.is_empty() && found.asks.is_empty());
    let unasked = asks
        .as_ref()
        .filter(|url| !is_asked(url))
        .map(|url| if url.is_empty() { none() } else { url.clone() });
    compare("the URL that an origin is asked for", unasked, list(&found.asks));
    compare("the outcome", outcome.clone(), found.outcome.to_owned());
    compare("the reason", reason.clone(), found.reason.map_or_else(none, str::to_owned));
    compare(
        "the status",
        status.map(|status| status.to_string()),
        found.status.map_or_else(none, |status| status.to_string()),
    );
    let seconds = |seconds: u32| show_duration(std::time::Duration::from_secs(seconds.into()));
    let expected = lifetime.as_deref().map(parse_duration).transpose()?;
    compare("the lifetime", expected.map(show_duration), found.lifetime.map_or_else(none, seconds));
    for (whose, expected, found) in
        [("the origin", sends, &found.sent), ("the client", fields, &found.replied)]
    {
        for (name, value) in expected {
            let all: Vec<_> =
                found.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
            let shown = |text: &str| if text.is_empty() { "absent".to_owned() } else { format!("'{text}'") };
            compare(&format!("{name} for {whose}"), Some(shown(value)), shown(&all.join(", ")));
        }
    }
    Ok(differences)
}
