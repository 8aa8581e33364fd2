//! The report: one HTML page that needs no other file and no network, and each figure's numbers beside it as CSV.
//!
//! First the answers, then each experiment: what was measured, what its claims came to, pictures, tables.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::findings::{Figure, Finding, Findings, Grid};
use super::statistics::Verdict;
use super::{Halt, machine};

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
        (count(|verdict| *verdict == Verdict::Holds), "hold"),
        (count(|verdict| *verdict == Verdict::Fails), "do not hold"),
        (count(|verdict| matches!(verdict, Verdict::Depends(_))), "depend on conditions"),
        (count(|verdict| matches!(verdict, Verdict::Open(_))), "are not decided"),
    ];
    let told = counts.map(|(count, what)| format!("{count} {what}")).join(", ");
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
         Of {} claims, {told}.{kind}</p>\n<p class=\"quiet\">{}, seed {}</p>\n{halted}",
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
        for Finding { claim, verdict, effect, .. } in &part.findings.findings {
            let _ = writeln!(
                text,
                "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
                escape(claim),
                chip(verdict),
                escape(effect)
            );
        }
    }
    text + "</tbody>\n</table></div>\n</section>\n"
}

/// A verdict in words, with a sign and a colour that say the same.
fn chip(verdict: &Verdict) -> String {
    let (class, sign, words) = match verdict {
        Verdict::Holds => ("holds", "\u{2713}", "holds".to_owned()),
        Verdict::Fails => ("fails", "\u{2717}", "does not hold".to_owned()),
        Verdict::Depends(on) => ("depends", "\u{2248}", format!("depends: {on}")),
        Verdict::Open(why) => ("open", "?", format!("not decided: {why}")),
    };
    format!("<span class=\"chip {class}\">{sign} {}</span>", escape(&words))
}

fn section(part: &Part) -> String {
    let Findings { setup, findings, figures, tables } = &part.findings;
    let mut text = format!("<section id=\"{}\">\n<h2>{}</h2>\n", part.name, escape(part.title));
    let _ = writeln!(text, "<p class=\"quiet\">{}</p>", escape(part.shows));
    for paragraph in setup {
        let _ = writeln!(text, "<p>{}</p>", escape(paragraph));
    }
    for finding in findings {
        let Finding { claim, source, verdict, effect, text: explanation } = finding;
        let _ = writeln!(
            text,
            "<article>\n<h3>{}</h3>\n<p>{} <span class=\"quiet\">{}</span></p>\n<p>{}</p>\n<p class=\"quiet\">Claimed by: {}</p>\n</article>",
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
        "<figure id=\"{name}\">\n{}<figcaption>{}</figcaption>\n<details><summary>data</summary>\n\
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
        rows: machine::describe().into_iter().map(|(what, which)| vec![what.to_owned(), which]).collect(),
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
        write(directory.path(), &[part()], &Provenance { commands, scale, date: "today".to_owned() })
            .unwrap();
        let page = fs::read_to_string(directory.path().join("report.html")).unwrap();
        for text in [
            "Of 4 claims, 1 hold, 1 do not hold, 1 depend on conditions, 1 are not decided.",
            "depends: it holds at 10%",
            "because a &lt; b",
            "Some &amp; any",
            "is not whole (stopped)",
            "larder experiment some -o out",
            "seed 7",
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
        let origin = Provenance { commands: Vec::new(), scale, date: String::new() };
        let failed = write(Path::new("/nonexistent"), &[], &origin).unwrap_err().to_string();
        assert!(failed.starts_with("cannot write to '/nonexistent/report.html': "), "{failed}");
    }
}
