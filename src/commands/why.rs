//! `larder why`: the decision of a running larder on a request, and the reasons. Also the list of all reasons.

use std::fmt::Write as _;

use clap::Args;
use larder_proxy::explanation::{
    Answer, AppliedRule, Decision, EngineCopy, Explanation, Reason, RequestEnd, SecondTier, StoredView,
};
use larder_semantics::status::Why as Word;

use crate::cli::admin::AdminListener;
use crate::cli::tables::aligned;
use crate::cli::units::about_size;
use crate::cli::words::printable;
use crate::cli::{Failure, clock, say};

pub(super) const EXAMPLES: &str = "\
Examples:
  larder why http://127.0.0.1:8080/
      the decision on a GET for this URL at this moment; nothing is sent to an origin
  larder why http://127.0.0.1:8080/ -H 'Host: docs.example' -H 'Authorization: Bearer x'
  larder why http://127.0.0.1:8080/ --method HEAD --json
  larder why --reasons > reasons.md
      every reason, with its meaning and remedy

Write the URL as clients do, with the same host name.";

/// The arguments of `why`.
#[derive(Debug, Args)]
pub(crate) struct Why {
    /// The URL, as clients write it
    #[arg(value_name = "URL", required_unless_present = "reasons")]
    url: Option<String>,
    /// A field of the request; repeatable
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// The request's method [default: GET]
    #[arg(long, value_name = "METHOD")]
    method: Option<String>,
    /// For clients of these listeners: forward or reverse [default: those that serve the URL]
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print the list of all reasons instead, in Markdown
    #[arg(long, exclusive = true)]
    reasons: bool,
    /// The admin listener.
    #[command(flatten)]
    listener: AdminListener,
}

const INTRODUCTION: &str = "\
# Reasons

Each decision about a request or a response has one of these reasons. `Cache-Status` (`detail`), the logs, the metrics, the
statistics and `larder why` use the same words. `larder why --reasons` prints this page, and `larder why URL` says which
reason holds for a URL at this moment.
";

/// Explains a request, or prints the list of reasons.
pub(crate) fn run(why: &Why) -> Result<(), Failure> {
    let Some(url) = &why.url else {
        say(reasons().trim_end());
        return Ok(());
    };
    let remote = why.listener.client()?;
    let mut query = vec![("url", url.clone())];
    query.extend(why.headers.iter().map(|line| ("header", line.clone())));
    query.extend(why.method.iter().map(|method| ("method", method.clone())));
    query.extend(why.role.iter().map(|role| ("role", role.clone())));
    let explanation: Explanation = remote.get("why", &query)?;
    match why.json {
        true => say(&serde_json::to_string_pretty(&explanation).unwrap_or_default()),
        false => aligned(&rows(&explanation, clock::now()), 2, "  ").iter().for_each(|line| say(line)),
    }
    Ok(())
}

/// Renders the list of all reasons in Markdown: `docs/reasons.md`.
fn reasons() -> String {
    let mut page = INTRODUCTION.to_owned();
    for (group, reasons) in Word::GROUPS {
        let _ = write!(page, "\n## {group}\n\n| reason | meaning | rule | remedy |\n|---|---|---|---|\n");
        for why in *reasons {
            let (word, meaning, rule, help) = (why.token(), why.explanation(), why.section(), why.help());
            let _ = writeln!(page, "| `{word}` | {meaning} | {rule} | {help} |");
        }
    }
    page
}

/// Returns the rows of an explanation, each with its subject.
fn rows(said: &Explanation, now: u64) -> Vec<Vec<String>> {
    let Explanation { decision, stored, answer, .. } = said;
    let mut rows = Vec::new();
    let mut row = |name: &str, text: String| rows.push(vec![name.to_owned(), printable(&text)]);
    row("request", format!("{} {}", said.method, said.key.as_ref().unwrap_or(&said.url)));
    row("decision", format!("{}: {}", decision.outcome, sentence(&decision.reason)));
    if let Some(owner) = &said.owner {
        row("owner", format!("{owner}, which gets the request before the origin"));
    }
    row("origin", asked(decision, said));
    for AppliedRule { name, place, sets } in &said.rules {
        row("rule", format!("{name} ({place}) sets {}", sets.join(", ")));
    }
    if let Some(without) = &said.without_rules {
        row("without rules", format!("{}: {}", without.outcome, sentence(&without.reason)));
    }
    said.hints.iter().for_each(|hint| row("hint", hint.clone()));
    row("stored", stored.as_ref().map_or_else(|| nothing(said), held));
    if let Some(url) = stored.as_ref().and_then(|stored| stored.url.as_ref()) {
        row("stored for", format!("{url}, which No-Vary-Search makes equivalent"));
    }
    for (coding, bytes) in stored.iter().flat_map(|stored| &stored.forms) {
        row("compressed", format!("{coding}, {}", about_size(*bytes)));
    }
    for (name, value) in stored.iter().flat_map(|stored| &stored.vary) {
        let value = value.as_ref().map_or_else(|| "not sent".to_owned(), |value| format!("'{value}'"));
        row("varies by", format!("{name}: {value}"));
    }
    if let Some(tier) = &said.second_tier {
        row("second tier", kept(tier));
    }
    match answer {
        Some(answer) => {
            row("last answer", last(answer, now));
            answer.fields.iter().for_each(|(name, value)| row("", format!("{name}: {value}")));
            match &answer.why_not {
                Some(reason) => row("storing", format!("no: {}", sentence(reason))),
                None => row("storing", "such an answer is stored".to_owned()),
            }
            answer.notes.iter().for_each(|(about, text)| row("note", format!("{about}: {text}")));
        }
        None if decision.asks_origin => row("last answer", "not known".to_owned()),
        None => {}
    }
    for RequestEnd { ago, method, http_version, status, outcome, reason } in &said.last {
        let version = http_version.iter().map(|version| format!(" (HTTP/{version})")).collect::<String>();
        row(&format!("{ago} s ago"), format!("{method}{version}: {status}, {outcome} ({reason})"));
    }
    let of_answer = answer.iter().filter_map(|answer| answer.why_not.as_ref());
    let helps = of_answer.chain([&decision.reason]).map(|reason| &reason.help);
    if let Some(help) = helps.into_iter().find(|help| !help.is_empty()) {
        row("what helps", help.clone());
    }
    rows
}

/// Formats a reason with its word and its rule.
fn sentence(reason: &Reason) -> String {
    let Reason { reason, section, explanation, .. } = reason;
    format!("{explanation} ({reason}, {section})")
}

fn asked(decision: &Decision, said: &Explanation) -> String {
    let site = match (&said.site, said.role.as_str()) {
        // The decision has the reason.
        (None, _) => return "not asked".to_owned(),
        (Some(_), "forward") => "forward proxy".to_owned(),
        (Some(site), _) => format!("site '{site}'"),
    };
    let state = |origin: &String| match said.troubles.get(origin) {
        Some(why) => format!("{origin} (gets no requests: {why})"),
        None if said.failing.contains(origin) => {
            format!("{origin} (failed its last request or health check)")
        }
        None => origin.clone(),
    };
    let origins = said.origins.iter().map(state).collect::<Vec<_>>().join(" or ");
    let does = match decision {
        Decision { validates: true, .. } => "asked to revalidate the stored response",
        Decision { asks_origin: true, .. } => "asked",
        Decision { refreshes: true, .. } => "asked for a newer response meanwhile",
        _ => "not asked",
    };
    format!("{does}: {origins} ({site})")
}

fn nothing(said: &Explanation) -> String {
    match said.variants {
        0 => "nothing".to_owned(),
        1 => "1 response for other request fields".to_owned(),
        many => format!("{many} responses for other request fields"),
    }
}

fn held(stored: &StoredView) -> String {
    let StoredView { tier, status, bytes, age, lifetime, lifetime_from, ttl, .. } = stored;
    let from = match lifetime_from.as_str() {
        "nothing" => "no field states a lifetime".to_owned(),
        from => format!("by {from}"),
    };
    let state = match ttl {
        1.. if stored.fresh => format!("fresh for {ttl} s"),
        1.. => "to be validated with each use".to_owned(),
        _ => format!("stale for {} s", ttl.unsigned_abs()),
    };
    let place = if tier == "disk" { "on disk" } else { "in memory" };
    let bytes = about_size(*bytes);
    let by_rules = if stored.only_by_rules { ", stored only because of rules" } else { "" };
    let how = if stored.prefetched { ", prefetched" } else { "" };
    format!("{place}: status {status}, {bytes}, {age} s old of {lifetime} s ({from}), {state}{by_rules}{how}")
}

fn kept(tier: &SecondTier) -> String {
    let SecondTier { result, explanation, kept, .. } = tier;
    match kept {
        Some(EngineCopy { status, bytes, age, lifetime, .. }) => {
            let size = about_size(*bytes);
            format!("{result}: status {status}, {size}, {age} s old of {lifetime} s; {explanation}")
        }
        None => format!("{result}: {explanation}"),
    }
}

fn last(answer: &Answer, now: u64) -> String {
    let ago = now.saturating_sub(u64::from(answer.time));
    match answer.status {
        Some(status) => format!("status {status}, {ago} s ago"),
        None => format!("none, {ago} s ago"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = env!("CARGO_MANIFEST_DIR");

    #[test]
    fn the_page_in_the_tree_is_in_step_with_the_list() {
        let written = std::fs::read_to_string(format!("{ROOT}/docs/reasons.md")).unwrap_or_default();
        assert!(written == reasons(), "run `larder why --reasons > docs/reasons.md`");
        for why in Word::ALL {
            assert_eq!(written.matches(&format!("| `{}` |", why.token())).count(), 1, "{why:?}");
        }
    }

    fn ended() -> RequestEnd {
        let [method, outcome, reason] = ["GET", "miss", "set-cookie"].map(str::to_owned);
        RequestEnd { ago: 3, method, http_version: Some("2".to_owned()), status: 200, outcome, reason }
    }

    fn applied() -> AppliedRule {
        let sets = ["ttl", "query"].map(str::to_owned).into();
        AppliedRule { name: "assets".to_owned(), place: "larder.toml:7".to_owned(), sets }
    }

    #[test]
    fn an_explanation_says_what_was_decided_and_what_would_help() {
        let reason = |why| Reason::of(why);
        let decision = Decision {
            outcome: "miss".to_owned(),
            reason: reason(Word::Absent),
            asks_origin: true,
            validates: false,
            refreshes: false,
        };
        let answer = Answer {
            time: 90,
            status: Some(200),
            fields: vec![("set-cookie".to_owned(), "...".to_owned())],
            storable: false,
            why_not: Some(reason(Word::SetCookie)),
            notes: vec![("Pragma".to_owned(), "means nothing".to_owned())],
        };
        let said = Explanation {
            url: "http://a/\u{1b}".to_owned(),
            method: "GET".to_owned(),
            role: "reverse".to_owned(),
            key: None,
            site: Some("a".to_owned()),
            origins: vec!["http://b".to_owned(), "http://c".to_owned()],
            failing: vec!["http://c".to_owned()],
            troubles: Default::default(),
            rules: vec![applied()],
            without_rules: None,
            hints: vec!["the origin may compress".to_owned()],
            decision,
            stored: None,
            variants: 2,
            owner: None,
            second_tier: Some(SecondTier {
                result: "hit".to_owned(),
                explanation: "not purged since its fetch began, but node 'b' owns the key".to_owned(),
                answers: false,
                owner: Some("b".to_owned()),
                kept: Some(EngineCopy {
                    status: 200,
                    bytes: 1_200,
                    age: 7,
                    lifetime: 60,
                    expires: 53,
                    position: "1-0".to_owned(),
                }),
            }),
            answer: Some(answer),
            last: vec![ended()],
        };
        let lines = aligned(&rows(&said, 100), 2, "  ");
        let expected = [
            "request      GET http://a/\\u{1b}",
            "decision     miss: nothing is stored under this URI (absent, RFC 9111 2)",
            "origin       asked: http://b or http://c (failed its last request or health check) (site 'a')",
            "rule         assets (larder.toml:7) sets ttl, query",
            "hint         the origin may compress",
            "stored       2 responses for other request fields",
            "second tier  hit: status 200, 1.17 KiB, 7 s old of 60 s; not purged since its fetch began, but node 'b' owns the key",
            "last answer  status 200, 10 s ago",
            "             set-cookie: ...",
            "storing      no: the response sets a cookie and has no lifetime of its own (set-cookie, RFC 6265 4.1)",
            "note         Pragma: means nothing",
            "3 s ago      GET (HTTP/2): 200, miss (set-cookie)",
            "what helps   set no cookie with it, or drop it by response = { cookies = \"drop\" } and set ttl_default in a rule; or send Cache-Control: max-age=SECONDS, if all users may get the cookie",
        ];
        assert_eq!(lines, expected);
    }
}
