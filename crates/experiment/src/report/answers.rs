//! The verdicts: their numbers, and the tables of all claims.

use std::fmt::Write as _;

use larder_lab::html::escape;

use super::Part;
use crate::findings::{ClaimSource, Finding, JudgedFinding};
use crate::statistics::Verdict;

/// A group of claims.
struct Chapter {
    name: &'static str,
    title: &'static str,
    about: &'static str,
    has: fn(&Finding) -> bool,
}

/// All groups: those whose verdicts are counted, and then the others.
const CHAPTERS: [Chapter; 4] = [
    Chapter {
        name: "seeds",
        title: "Claims of the seed reports",
        about: "The sentence that claims it is quoted below each claim.",
        has: |finding| finding.is_counted() && finding.source != ClaimSource::Own,
    },
    Chapter {
        name: "own",
        title: "Claims of this report",
        about: "No seed report claims these.",
        has: |finding| finding.is_counted() && finding.source == ClaimSource::Own,
    },
    Chapter {
        name: "aspects",
        title: "Further figures of the same comparisons",
        about: "Each compares the same runs as a claim above, by another figure. A comparison counts once.",
        has: |finding| finding.is_tested() && finding.is_aspect,
    },
    Chapter {
        name: "given",
        title: "Decided by construction",
        about: "These claims follow from the design of the experiments, from a theorem or from a table of prices. Measurements \
                only confirm that the experiments have this design.",
        has: |finding| !finding.is_tested(),
    },
];

/// Returns the numbers of all verdicts.
pub(super) fn numbers(parts: &[Part], level: f64) -> String {
    let all: Vec<&Finding> = parts.iter().flat_map(|part| &part.findings.findings).collect();
    let counted: String = CHAPTERS.iter().take(2).map(|chapter| counts(chapter, &all, level)).collect();
    let others: String = CHAPTERS.iter().skip(2).map(|chapter| rest(chapter, &all)).collect();
    format!("{counted}<p>{others}</p>\n")
}

/// Returns the numbers of the verdicts on the claims of a chapter.
fn counts(chapter: &Chapter, all: &[&Finding], level: f64) -> String {
    let of = all.iter().filter(|finding| (chapter.has)(finding));
    let verdicts: Vec<Verdict> = of.map(|finding| finding.decide(level).verdict).collect();
    let count = |is_it: fn(&Verdict) -> bool| verdicts.iter().filter(|verdict| is_it(verdict)).count();
    let counts = [
        (count(|verdict| *verdict == Verdict::Holds), "holds", ["\u{2713}", "holds", "hold"]),
        (count(|verdict| *verdict == Verdict::Fails), "fails", ["\u{2717}", "does not hold", "do not hold"]),
        (
            count(|verdict| matches!(verdict, Verdict::Depends(_))),
            "depends",
            ["\u{2248}", "depends on conditions", "depend on conditions"],
        ),
        (
            count(|verdict| matches!(verdict, Verdict::Open(_))),
            "open",
            ["?", "is not decided", "are not decided"],
        ),
    ];
    let told: String = counts
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, class, [sign, one, many])| {
            let words = if *count == 1 { one } else { many };
            format!("<span class=\"chip {class}\">{sign} {count} {words}</span>\n")
        })
        .collect();
    match verdicts.len() {
        0 => String::new(),
        tested => format!("<p>{}: {tested} tested.<br>\n{told}</p>\n", chapter.title),
    }
}

/// Returns the number of claims in a chapter that is not counted, as a sentence.
fn rest(chapter: &Chapter, all: &[&Finding]) -> String {
    match all.iter().filter(|finding| (chapter.has)(finding)).count() {
        0 => String::new(),
        more => format!("{}: {more} more, which are listed separately and not counted. ", chapter.title),
    }
}

/// Returns the tables of all claims.
pub(super) fn answers(parts: &[Part], level: f64) -> String {
    let tables: String = CHAPTERS.iter().map(|chapter| answer_table(chapter, parts, level)).collect();
    format!("<section id=\"answers\">\n<h2>The answers</h2>\n{tables}</section>\n")
}

fn answer_table(chapter: &Chapter, parts: &[Part], level: f64) -> String {
    let rows = answer_rows(parts, level, chapter.has);
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "<h3 id=\"{}\">{}</h3>\n<p>{}</p>\n<div class=\"wide\"><table>\n<thead><tr><th>claim</th><th>verdict</th><th>effect</th></tr>\
         </thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n",
        chapter.name, chapter.title, chapter.about
    )
}

fn answer_rows(parts: &[Part], level: f64, is_it: fn(&Finding) -> bool) -> String {
    let mut text = String::new();
    for part in parts {
        let those = (1..).zip(&part.findings.findings).filter(|(_, finding)| is_it(finding));
        let mut those = those.peekable();
        if those.peek().is_none() {
            continue;
        }
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "<tr class=\"part\"><th colspan=\"3\" scope=\"rowgroup\"><a href=\"#{}\">{}</a></th></tr>",
            part.name,
            escape(part.title)
        );
        for (at, finding) in those {
            let JudgedFinding { verdict, effect, .. } = finding.decide(level);
            let _ = writeln!(
                text,
                "<tr><td><a href=\"#{}-{at}\">{}</a></td><td>{}</td><td>{}</td></tr>",
                part.name,
                escape(&finding.claim),
                chip(&verdict),
                size(&effect)
            );
        }
    }
    text
}

/// Returns the size of an effect, with its uncertainty in a weaker style.
fn size(effect: &str) -> String {
    let (mean, rest) = effect.split_at(effect.find(" (").unwrap_or(effect.len()));
    format!("{}<br><span class=\"quiet\">{}</span>", escape(mean), escape(rest.trim_start()))
}

/// Returns a verdict as text, with a sign and a colour of the same meaning, and its conditions.
pub(super) fn chip(verdict: &Verdict) -> String {
    let (class, sign, words, rest) = match verdict {
        Verdict::Holds => ("holds", "\u{2713}", "holds", ""),
        Verdict::Fails => ("fails", "\u{2717}", "does not hold", ""),
        Verdict::Depends(on) => ("depends", "\u{2248}", "depends", on.as_str()),
        Verdict::Open(why) => ("open", "?", "not decided", why.as_str()),
    };
    let rest = if rest.is_empty() {
        String::new()
    } else {
        format!(" <span class=\"quiet\">{}</span>", escape(rest))
    };
    format!("<span class=\"chip {class}\">{sign} {words}</span>{rest}")
}
