//! The report: one self-contained HTML page, and each figure's numbers beside it as CSV.
//!
//! First the verdicts, then each experiment: its measurements, claims, pictures and tables.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::Halt;
use super::findings::{Figure, Finding, Findings, Grid};
use super::statistics::Verdict;

const STYLE: &str = include_str!("report.css");

/// Of one experiment.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its name.
    pub name: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// What it shows.
    pub shows: &'static str,
    /// What it found.
    pub findings: Findings,
    /// Why it is not whole, if it is not.
    pub halted: Option<String>,
}

/// How it came about.
#[derive(Clone, Debug)]
pub struct Provenance {
    /// What was typed, a line each.
    pub commands: Vec<String>,
    /// How much was measured, and from which seed.
    pub scale: super::Scale,
    /// The machine as it was when it began: names and values.
    pub machine: Vec<(&'static str, String)>,
    /// When, for people.
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
    let sections: String = parts.iter().map(section).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Larder: experiments</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>What the experiments show</h1>\n{}</header>\n\
         <nav aria-label=\"experiments\">\n{contents}<a href=\"#how\">How it was measured</a>\n</nav>\n<main>\n{}{sections}{}</main>\n\
         </body>\n</html>\n",
        opening(parts, origin),
        answers(parts),
        how(origin),
    )
}

fn opening(parts: &[Part], origin: &Provenance) -> String {
    let all = parts.iter().flat_map(|part| &part.findings.findings);
    let count = |is_it: fn(&Verdict) -> bool| all.clone().filter(|finding| is_it(&finding.verdict)).count();
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
    let kind = match origin.scale.size {
        super::Size::Full => String::new(),
        size => format!(
            " This was the {} run: every figure from few measurements, so that intervals are wide.",
            size.name()
        ),
    };
    let halted: String =
        parts.iter().filter_map(|part| Some((part, part.halted.as_ref()?))).map(halted).collect();
    format!(
        "<p>Measured live: a real proxy, asked over sockets, in front of an origin whose pages and delays are known. \
         {} claims were put to the test.{kind}</p>\n<p>{told}</p>\n<p class=\"quiet\">{}, seed {}</p>\n{halted}",
        all.clone().count(),
        escape(&origin.date),
        origin.scale.seed,
    )
}

fn halted((part, why): (&Part, &String)) -> String {
    format!(
        "<p class=\"warning\">The experiment <b>{}</b> is not whole ({}); what was measured before is below.</p>\n",
        part.name,
        escape(why)
    )
}

/// The table of all claims.
fn answers(parts: &[Part]) -> String {
    let mut text = "<section id=\"answers\">\n<h2>The answers</h2>\n<div class=\"wide\"><table>\n<thead><tr><th>claim</th>\
         <th>verdict</th><th>how large</th></tr></thead>\n<tbody>\n"
        .to_owned();
    for part in parts {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "<tr class=\"part\"><th colspan=\"3\" scope=\"rowgroup\"><a href=\"#{}\">{}</a></th></tr>",
            part.name,
            escape(part.title)
        );
        for (at, Finding { claim, verdict, effect, text: explanation, .. }) in
            (1..).zip(&part.findings.findings)
        {
            let _ = writeln!(
                text,
                "<tr><td><a href=\"#{}-{at}\">{}</a><br><span class=\"quiet\">{}</span></td><td>{}</td><td>{}</td></tr>",
                part.name,
                escape(claim),
                escape(first_sentence(explanation)),
                chip(verdict),
                size(effect)
            );
        }
    }
    text + "</tbody>\n</table></div>\n</section>\n"
}

/// How large an effect is, and more quietly how sure that is.
fn size(effect: &str) -> String {
    let (mean, rest) = effect.split_at(effect.find(" (").unwrap_or(effect.len()));
    format!("{}<br><span class=\"quiet\">{}</span>", escape(mean), escape(rest.trim_start()))
}

/// What stands before the rest of an explanation.
fn first_sentence(text: &str) -> &str {
    text.find(". ").map_or(text, |end| &text[..=end])
}

/// A verdict in words, with a sign and a colour that say the same, and what it depends on.
fn chip(verdict: &Verdict) -> String {
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

fn section(part: &Part) -> String {
    let Findings { setup, findings, figures, tables } = &part.findings;
    let mut text = format!("<section id=\"{}\">\n<h2>{}</h2>\n", part.name, escape(part.title));
    let _ = writeln!(text, "<p class=\"quiet\">{}</p>", escape(part.shows));
    for paragraph in setup {
        let _ = writeln!(text, "<p>{}</p>", escape(paragraph));
    }
    for (at, finding) in (1..).zip(findings) {
        let Finding { claim, source, verdict, effect, text: explanation } = finding;
        let _ = writeln!(
            text,
            "<article id=\"{}-{at}\">\n<h3>{}</h3>\n<p>{}<br><span class=\"quiet\">{}</span></p>\n<p>{}</p>\n\
             <p class=\"quiet\">Claimed by: {}</p>\n</article>",
            part.name,
            escape(claim),
            chip(verdict),
            escape(effect),
            escape(explanation),
            escape(source)
        );
    }
    text.extend(figures.iter().map(figure));
    text.extend(tables.iter().filter(|table| !table.rows.is_empty()).map(|table| {
        format!("<h3>{}</h3>\n<div class=\"wide\">{}</div>\n", escape(&table.title), rows(table))
    }));
    text + "</section>\n"
}

fn figure(figure: &Figure) -> String {
    let Figure { name, plot, caption, data } = figure;
    let csv = data.csv();
    format!(
        "<figure id=\"{name}\">\n<div class=\"wide\">{}</div>\n<figcaption>{}</figcaption>\n<details><summary>data</summary>\n\
         <p><a download=\"{name}.csv\" href=\"data:text/csv;charset=utf-8,{}\">{name}.csv</a></p>\n<pre>{}</pre>\n</details>\n</figure>\n",
        plot.svg(),
        escape(caption),
        percent_encoded(&csv),
        escape(&csv),
    )
}

fn rows(grid: &Grid) -> String {
    let cells = |row: &[String], tag: &str| {
        let cells: String = row.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let body: String = grid.rows.iter().map(|row| cells(row, "td")).collect();
    format!("<table>\n<thead>{}</thead>\n<tbody>\n{body}</tbody>\n</table>", cells(&grid.columns, "th"))
}

fn how(origin: &Provenance) -> String {
    let machine = Grid {
        title: String::new(),
        columns: vec!["what".to_owned(), "which".to_owned()],
        rows: origin.machine.iter().map(|(what, which)| vec![(*what).to_owned(), which.clone()]).collect(),
    };
    format!(
        "<section id=\"how\">\n<h2>How it was measured</h2>\n<p>These commands made this page; with the same seed they send the \
         same requests.</p>\n<pre>{}</pre>\n<div class=\"wide\">{}</div>\n<p>Intervals hold the true mean 95 times in 100 \
         (Student's t over the repetitions, differences taken pair by pair); d is the mean difference in standard deviations. \
         A claim <b>holds</b> if its interval lies above 0 and at no condition the contrary is sure; it <b>depends</b> if \
         conditions differ; it is <b>not decided</b> if chance could explain what was seen.</p>\n</section>\n",
        escape(&origin.commands.join("\n")),
        rows(&machine),
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// `text` within a `data:` URL.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 5 / 4);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b',' => {
                encoded.push(byte.into())
            }
            _ => _ = write!(encoded, "%{byte:02X}"),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::{Scale, Size};
    use crate::plot::{Axis, Plot, Unit};

    fn part() -> Part {
        let finding = |claim: &str, verdict| Finding {
            claim: claim.to_owned(),
            source: "somebody",
            verdict,
            effect: "+1.00 ms".to_owned(),
            text: "because a < b".to_owned(),
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
        let claims = [
            ("one", Verdict::Holds),
            ("two", Verdict::Fails),
            ("three", Verdict::Depends("it holds at 10%".to_owned())),
            ("four", Verdict::Open("it was not measured".to_owned())),
        ];
        let findings = claims.map(|(claim, verdict)| finding(claim, verdict)).to_vec();
        let findings = Findings { setup: vec!["how".to_owned()], findings, figures, tables: vec![data] };
        Part {
            name: "some",
            title: "Some & any",
            shows: "this",
            findings,
            halted: Some("stopped".to_owned()),
        }
    }

    #[test]
    fn a_report_stands_alone_and_says_everything() {
        let directory = tempfile::tempdir().unwrap();
        let scale = Scale { size: Size::Quick, seed: 7 };
        let commands = vec!["larder experiment some -o out".to_owned()];
        write(
            directory.path(),
            &[part()],
            &Provenance {
                commands,
                scale,
                machine: vec![("processor", "two cores".to_owned())],
                date: "today".to_owned(),
            },
        )
        .unwrap();
        let page = fs::read_to_string(directory.path().join("report.html")).unwrap();
        for text in [
            "4 claims were put to the test.",
            "\u{2713} 1 holds</span>",
            "\u{2717} 1 does not hold</span>",
            "\u{2248} depends</span> <span class=\"quiet\">it holds at 10%",
            "<a href=\"#some-1\">one</a>",
            "because a &lt; b",
            "Some &amp; any",
            "is not whole (stopped)",
            "larder experiment some -o out",
            "seed 7",
            "two cores",
            "href=\"data:text/csv;charset=utf-8,a,b%0A1,%22x%20%22%22y%22%22%22%0A\"",
        ] {
            assert!(page.contains(text), "{text} in {page}");
        }
        let elsewhere = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!elsewhere.contains("http://") && !elsewhere.contains("https://"));
        let csv = fs::read_to_string(directory.path().join("some-figure.csv")).unwrap();
        assert_eq!(csv, "a,b\n1,\"x \"\"y\"\"\"\n");
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_named() {
        let scale = Scale { size: Size::Quick, seed: 7 };
        let origin = Provenance { commands: Vec::new(), scale, machine: Vec::new(), date: String::new() };
        let failed = write(Path::new("/nonexistent"), &[], &origin).unwrap_err().to_string();
        assert!(failed.starts_with("cannot write to '/nonexistent/report.html': "), "{failed}");
    }
}
