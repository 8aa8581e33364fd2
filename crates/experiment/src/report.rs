//! The report: one self-contained HTML page, and each figure's numbers in a separate CSV file.
//!
//! First the verdicts, then each experiment: its measurements, claims, pictures and tables.

mod answers;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use larder_lab::html::escape;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use self::answers::{answers, chip, numbers};
use super::findings::{ClaimSource, Figure, Findings, Grid, JudgedFinding, common_level};
use super::{Halt, Host};

/// Tables with more columns use a smaller font.
const MANY_COLUMNS: usize = 8;

/// What is encoded in a `data:` URL.
const IN_DATA: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b',');

const STYLE: &str = include_str!("report.css");

/// The part of the report on one experiment.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its name.
    pub name: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// The result that it shows.
    pub shows: &'static str,
    /// The findings.
    pub findings: Findings,
    /// The machine and the program, if there are measurements.
    pub host: Option<Host>,
    /// The processor time that other programs used meanwhile, in cores, if it was measured.
    pub load: Option<f64>,
    /// The reason why it is incomplete, if it is.
    pub halted: Option<String>,
}

/// The origin of the report.
#[derive(Clone, Debug)]
pub struct Provenance {
    /// The commands, one line each.
    pub commands: Vec<String>,
    /// The extent of the measurements, and the seed.
    pub scale: super::Scale,
    /// Further facts about this run: names and values.
    pub more: Vec<(&'static str, String)>,
    /// The date, for display.
    pub date: String,
}

/// Writes `report.html` and the CSV files into `directory`.
///
/// # Errors
/// If they cannot be written.
pub fn write(directory: &Path, parts: &[Part], origin: &Provenance) -> Result<(), Halt> {
    let save = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::write(&path, text)
            .map_err(|error| Halt::because(&format!("cannot write to '{}'", path.display()), error))
    };
    for part in parts {
        for figure in &part.findings.figures {
            save(&format!("{}.csv", figure.name), &figure.data.csv())?;
        }
    }
    save("report.html", &page(parts, origin))
}

fn page(parts: &[Part], origin: &Provenance) -> String {
    let contents: String =
        parts.iter().map(|part| format!("<a href=\"#{}\">{}</a>\n", part.name, escape(part.title))).collect();
    let level = common_level(parts.iter().flat_map(|part| &part.findings.findings));
    let sections: String = parts.iter().map(|part| section(part, level)).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Larder: experiments</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>Results of the experiments</h1>\n{}</header>\n\
         <nav aria-label=\"experiments\">\n{contents}<a href=\"#how\">Method</a>\n</nav>\n<main>\n{}{sections}{}</main>\n\
         </body>\n</html>\n",
        opening(parts, origin, level),
        answers(parts, level),
        how(parts, origin, level),
    )
}

fn opening(parts: &[Part], origin: &Provenance, level: f64) -> String {
    let kind = match origin.scale.size {
        super::Size::Full => String::new(),
        size => format!(
            " This was the {} run: each figure has few measurements, so intervals are wide.",
            size.name()
        ),
    };
    let halted: String =
        parts.iter().filter_map(|part| Some((part, part.halted.as_ref()?))).map(halted).collect();
    format!(
        "<p>These measurements are of a live proxy, which clients use over sockets, in front of an origin with known pages and \
         delays.{kind}</p>\n{}<p class=\"quiet\">Larder {}{}; {}, seed {}. \"This report\" is this page; \"the \
         seed reports\" are the earlier reports whose experiments it repeats.</p>\n{}{halted}",
        numbers(parts, level),
        env!("CARGO_PKG_VERSION"),
        escape(&commits(parts)),
        escape(&origin.date),
        origin.scale.seed,
        beside_load(parts),
    )
}

/// The processor time of other programs, in cores, from which the report warns.
const LOADED: f64 = 0.1;

/// Returns a warning about the experiments that ran beside other programs.
fn beside_load(parts: &[Part]) -> String {
    let loads = parts.iter().filter_map(|part| Some((part.name, part.load.filter(|load| *load >= LOADED)?)));
    let loads: Vec<_> = loads.map(|(name, load)| format!("{name}: {load:.1} cores")).collect();
    if loads.is_empty() {
        return String::new();
    }
    format!("<p class=\"warning\">Other programs used the machine meanwhile ({}).</p>\n", loads.join(", "))
}

/// Returns the measured commits, if known.
fn commits(parts: &[Part]) -> String {
    let facts = parts.iter().filter_map(|part| part.host.as_ref()).flat_map(|host| &host.facts);
    let commits: BTreeSet<&str> =
        facts.filter(|(name, _)| name == "commit").map(|(_, commit)| commit.as_str()).collect();
    let commits: Vec<_> = commits.into_iter().filter(|commit| !commit.starts_with("unknown")).collect();
    if commits.is_empty() { String::new() } else { format!(", commit {}", commits.join(", ")) }
}

fn halted((part, why): (&Part, &String)) -> String {
    format!(
        "<p class=\"warning\">The experiment <b>{}</b> is incomplete ({}). Its measurements so far are below.</p>\n",
        part.name,
        escape(why)
    )
}

fn section(part: &Part, level: f64) -> String {
    let Findings { setup, findings, figures, tables } = &part.findings;
    let mut text = format!("<section id=\"{}\">\n<h2>{}</h2>\n", part.name, escape(part.title));
    let _ = writeln!(text, "<p class=\"quiet\">{}</p>", escape(part.shows));
    for paragraph in setup {
        let _ = writeln!(text, "<p>{}</p>", escape(paragraph));
    }
    for (at, finding) in (1..).zip(findings) {
        text += &article(&format!("{}-{at}", part.name), &finding.decide(level));
    }
    text.extend(figures.iter().map(figure));
    text.extend(tables.iter().filter(|table| !table.rows.is_empty()).map(|table| {
        format!("<h3>{}</h3>\n<div class=\"wide\">{}</div>\n", escape(&table.title), rows(table))
    }));
    text + "</section>\n"
}

/// Returns a claim with its verdict, the rule, the measurements, and the explanations of the verdict.
fn article(name: &str, decided: &JudgedFinding<'_>) -> String {
    let JudgedFinding { finding, verdict, rule, effect, conditions } = decided;
    let explanations: Vec<&str> =
        std::iter::once(finding.text.as_str()).chain(decided.explanations()).collect();
    let conditions = match conditions.is_empty() {
        true => String::new(),
        false => format!("<br><span class=\"quiet\">{}</span>", escape(conditions)),
    };
    format!(
        "<article id=\"{name}\">\n<h3>{}</h3>\n<p>{}<br><span class=\"quiet\">{}</span>{conditions}</p>\n<p>{}</p>\n\
         <p class=\"quiet\">Claimed by {}. {}: {}</p>\n</article>\n",
        escape(&finding.claim),
        chip(verdict),
        escape(effect),
        escape(explanations.join(" ").trim()),
        claimed(finding.source),
        if finding.is_tested() { "Rule" } else { "By construction" },
        escape(rule),
    )
}

/// Returns the source of a claim, with the sentence that claims it.
fn claimed(source: ClaimSource) -> String {
    match source {
        ClaimSource::Seed(report, sentence) => format!("{}: <q>{}</q>", escape(report), escape(sentence)),
        ClaimSource::Own => "this report".to_owned(),
    }
}

fn figure(figure: &Figure) -> String {
    let Figure { name, plot, caption, data } = figure;
    let csv = data.csv();
    format!(
        "<figure id=\"{name}\">\n<div class=\"wide\">{}</div>\n<figcaption>{}</figcaption>\n<details><summary>data</summary>\n\
         <p><a download=\"{name}.csv\" href=\"data:text/csv;charset=utf-8,{}\">{name}.csv</a></p>\n<pre>{}</pre>\n</details>\n</figure>\n",
        plot.svg(),
        escape(caption),
        utf8_percent_encode(&csv, IN_DATA),
        escape(&csv),
    )
}

fn rows(grid: &Grid) -> String {
    let cells = |row: &[String], tag: &str| {
        let cells: String = row.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let body: String = grid.rows.iter().map(|row| cells(row, "td")).collect();
    // Tables with many columns fit the page with a smaller font.
    let many = if grid.columns.len() > MANY_COLUMNS { " class=\"many\"" } else { "" };
    format!("<table{many}>\n<thead>{}</thead>\n<tbody>\n{body}</tbody>\n</table>", cells(&grid.columns, "th"))
}

fn how(parts: &[Part], origin: &Provenance, level: f64) -> String {
    let machine = Grid {
        title: String::new(),
        columns: vec!["fact".to_owned(), "value".to_owned()],
        rows: facts(parts, origin),
    };
    format!(
        "<section id=\"how\">\n<h2>Method</h2>\n<p>These commands produced this page. With the same seed, they send the same \
         requests.</p>\n<pre>{}</pre>\n<div class=\"wide\">{}</div>\n\
         <h3>How claims are decided</h3>\n<p>The unit of repetition is the list of requests: both sides of a comparison get the same \
         lists, and several runs over one list count once. Intervals hold the true mean 95 times in 100 (Student's t over the lists). \
         Effects are distances to the claim's threshold, in standard deviations of the lists.</p>\n<p>Each claim has a kind \
          (exists, always, on average, depends on), and each kind has a rule, which is printed below the claim. Where live and \
          simulated hits are equal, the simulation decides, with many more lists.</p>\n<p>All tested claims together have at most 5 false verdicts in 100: the \
         procedure of Benjamini and Hochberg over the claims gives a level of {level:.4} for each of this page, and Holm's method \
         divides it among the conditions within a claim. An undecided claim names the distance that would have been found 4 \
          times in 5.</p>\n</section>\n",
        escape(&origin.commands.join("\n")),
        rows(&machine),
    )
}

/// Returns the facts about machine and program at the measurements: once if all experiments have the same, or otherwise
/// by experiment.
fn facts(parts: &[Part], origin: &Provenance) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let hosts: Vec<_> = parts.iter().filter_map(|part| Some((part.name, part.host.as_ref()?))).collect();
    let names = hosts.first().map_or(&[][..], |(_, host)| &host.facts).iter().map(|(name, _)| name);
    for name in names {
        let of = |(part, host): &(&str, &Host)| {
            let value = host.facts.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
            (part.to_string(), value.unwrap_or_else(|| "unknown".to_owned()))
        };
        let values: Vec<_> = hosts.iter().map(of).collect();
        let text = match values.iter().all(|(_, value)| *value == values[0].1) {
            true => values[0].1.clone(),
            false => {
                let each = values.iter().map(|(part, value)| format!("{part}: {value}"));
                each.collect::<Vec<_>>().join("; ")
            }
        };
        rows.push(vec![name.clone(), text]);
    }
    let loads = parts.iter().filter_map(|part| Some((part.name, part.load?)));
    let loads: Vec<_> = loads.map(|(name, load)| format!("{name}: {load:.2} cores")).collect();
    if !loads.is_empty() {
        rows.push(vec!["load of other programs".to_owned(), loads.join("; ")]);
    }
    rows.extend(origin.more.iter().map(|(what, which)| vec![(*what).to_owned(), which.clone()]));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bound, ClaimKind, Finding, Ruling, Samples, Scale, Size};
    use larder_lab::plot::{Axis, Plot, Unit};

    const SEED: ClaimSource = ClaimSource::Seed("a seed report", "It \"is\" so.");

    fn part() -> Part {
        let finding = |claim: &str, conditions: &[f64]| {
            let mut samples = Samples::default();
            for (at, value) in (1..).zip(conditions) {
                let values = [-0.01, 0.0, 0.005, 0.01].map(|noise| value + noise);
                samples.add(&format!("{at}0%"), (0..).zip(values));
            }
            let kind = ClaimKind::DependsOn("cache size");
            Finding::sampled(claim, SEED, kind, (samples, Bound::Above(0.0)), (1.0, "ms"))
                .saying("because a < b")
                .because(&[Ruling::Fails], "this is why not")
        };
        let mut data = Grid::new("t", &["a", "b"]);
        data.row(["1".to_owned(), "x \"y\"".to_owned()]);
        let axis = || Axis::linear("a", Unit::Count);
        let plot = Plot::new("t", axis(), axis()).line("l", vec![(1.0, 2.0), (2.0, 3.0)]);
        let figures = vec![Figure {
            name: "some-figure".to_owned(),
            plot,
            caption: "see".to_owned(),
            data: data.clone(),
        }];
        let mut findings = vec![
            finding("one", &[1.0, 2.0]),
            finding("two", &[-1.0, -2.0]),
            finding("three", &[1.0, -1.0]),
            finding("four", &[]),
        ];
        findings[1].source = ClaimSource::Own;
        findings.push(Finding::given("five", SEED, "it was made so.", Some(true)));
        findings.push(finding("six", &[1.0]).aspect());
        let findings = Findings { setup: vec!["how".to_owned()], findings, figures, tables: vec![data] };
        Part {
            name: "some",
            title: "Some & any",
            shows: "this",
            findings,
            host: Some(Host {
                cores: 2,
                facts: vec![
                    ("processor".to_owned(), "two cores".to_owned()),
                    ("commit".to_owned(), "0123456789ab".to_owned()),
                ],
            }),
            load: Some(0.25),
            halted: Some("stopped".to_owned()),
        }
    }

    #[test]
    fn a_report_stands_alone_and_says_everything() {
        let directory = tempfile::tempdir().unwrap();
        let scale = Scale { size: Size::Quick, seed: 7 };
        let commands = vec!["larder-lab experiment some -o out".to_owned()];
        write(
            directory.path(),
            &[part()],
            &Provenance { commands, scale, more: vec![("time", "3 s".to_owned())], date: "today".to_owned() },
        )
        .unwrap();
        let page = fs::read_to_string(directory.path().join("report.html")).unwrap();
        for text in [
            "Claims of the seed reports: 3 tested.",
            "Claims of this report: 1 tested.<br>\n<span class=\"chip fails\">\u{2717} 1 does not hold</span>",
            "\u{2713} 1 holds</span>",
            "Further figures of the same comparisons: 1 more",
            "Claimed by a seed report: <q>It &quot;is&quot; so.</q>. Rule: ",
            "Claimed by this report. Rule: ",
            "Other programs used the machine meanwhile (some: 0.2 cores)",
            "<td>load of other programs</td><td>some: 0.25 cores</td>",
            "\u{2248} depends</span> <span class=\"quiet\">it holds at 10%, and the contrary holds at 20%",
            "10%: +1.00 (holds); 20%: +2.00 (holds)",
            "because a &lt; b this is why not",
            "Rule: Each condition (cache size) is decided separately",
            "Decided by construction: 1 more, which are listed separately and not counted",
            "By construction: it was made so.",
            "<a href=\"#some-5\">five</a>",
            "<a href=\"#some-1\">one</a>",
            "because a &lt; b",
            "Some &amp; any",
            "is incomplete (stopped)",
            "larder-lab experiment some -o out",
            "seed 7.",
            "commit 0123456789ab; today",
            "<td>processor</td><td>two cores</td>",
            "<td>commit</td><td>0123456789ab</td>",
            "href=\"data:text/csv;charset=utf-8,a,b%0A1,%22x%20%22%22y%22%22%22%0A\"",
        ] {
            assert!(page.contains(text), "{text} in {page}");
        }
        assert_eq!(page.matches("this is why not").count(), 1);
        let elsewhere = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!elsewhere.contains("http://") && !elsewhere.contains("https://"));
        let csv = fs::read_to_string(directory.path().join("some-figure.csv")).unwrap();
        assert_eq!(csv, "a,b\n1,\"x \"\"y\"\"\"\n");
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_named() {
        let scale = Scale { size: Size::Quick, seed: 7 };
        let origin = Provenance { commands: Vec::new(), scale, more: Vec::new(), date: String::new() };
        let failed = write(Path::new("/nonexistent"), &[], &origin).unwrap_err().to_string();
        assert!(failed.starts_with("cannot write to '/nonexistent/report.html': "), "{failed}");
    }
}
