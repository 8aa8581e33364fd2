//! A page of documentation as steps to run, and the comparison of their output with the page.

/// Commands to run, with their line in the page.
#[derive(Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) line: usize,
    pub(crate) commands: String,
    pub(crate) how: How,
    /// Expected lines of output.
    pub(crate) expected: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum How {
    Foreground,
    /// Run once this command succeeds, which changes nothing.
    After(String),
    /// Run in the background; the next step waits until this port of the loopback interface answers.
    Background(u16),
    /// Not run.
    Not,
}

#[derive(Debug, Default)]
pub(crate) struct Page {
    /// Commands that write the files of the page; they run before all others.
    pub(crate) files: String,
    pub(crate) steps: Vec<Step>,
}

/// The output of a step, and whether it succeeded.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) text: String,
    pub(crate) succeeded: bool,
}

impl Step {
    pub(crate) fn is_run(&self) -> bool {
        self.how != How::Not
    }
}

impl Page {
    pub(crate) fn read(text: &str) -> Self {
        let (mut page, mut how, mut file) = (Self::default(), How::Foreground, None);
        let mut lines = text.lines().enumerate();
        while let Some((at, line)) = lines.next() {
            if let Some(name) = line.strip_prefix("<!-- file: ") {
                file = Some(name.trim_end_matches(" -->"));
            } else if let Some(said) = line.strip_prefix("<!-- run: ") {
                how = directive(said.trim_end_matches(" -->"), at + 1);
            } else if line.starts_with("<!--") {
                panic!("line {}: readers do not see this comment", at + 1);
            } else if let Some(language) = line.strip_prefix("```").filter(|language| !language.is_empty()) {
                let body = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
                let body = body.collect::<Vec<_>>();
                if let Some(name) = file.take() {
                    let text = body.join("\n");
                    page.files += &format!("cat > {name} <<'END OF FILE'\n{text}\nEND OF FILE\n");
                }
                page.add(language, &body, at + 1, std::mem::replace(&mut how, How::Foreground));
            }
        }
        page
    }

    fn add(&mut self, language: &str, body: &[&str], line: usize, how: How) {
        match language {
            "sh" => self.steps.push(Step { line, commands: body.join("\n"), how, expected: Vec::new() }),
            "console" => self.add_console(body, line, &how),
            "http" => {
                if let Some(step) = self.steps.last_mut() {
                    step.expected.extend(body.iter().map(|&line| line.to_owned()));
                }
            }
            _ => {}
        }
    }

    /// Adds a step for each `$ command`, with the lines below it.
    fn add_console(&mut self, body: &[&str], line: usize, how: &How) {
        let mut is_command = false;
        for (at, &text) in body.iter().enumerate() {
            if let Some(command) = text.strip_prefix("$ ") {
                let (commands, how) = (command.to_owned(), how.clone());
                self.steps.push(Step { line: line + 1 + at, commands, how, expected: Vec::new() });
                is_command = command.ends_with('\\');
            } else if let Some(step) = self.steps.last_mut() {
                if is_command {
                    step.commands.extend(["\n", text]);
                    is_command = text.ends_with('\\');
                } else {
                    step.expected.push(text.to_owned());
                }
            }
        }
    }
}

/// Returns the lines of code blocks that look like commands (`$ ..`, `larder ..`, `curl ..`) in places where no
/// commands are read.
pub(crate) fn hidden(text: &str) -> Vec<usize> {
    let is_command = |line: &str| ["$ ", "larder ", "curl "].iter().any(|start| line.starts_with(start));
    let (mut found, mut language) = (Vec::new(), None);
    for (at, line) in text.lines().enumerate() {
        if let Some(rest) = line.strip_prefix("```") {
            language = if language.is_some() { None } else { Some(rest) };
        } else if language.is_some_and(|known| !["sh", "console"].contains(&known)) && is_command(line) {
            found.push(at + 1);
        }
    }
    found
}

fn directive(said: &str, line: usize) -> How {
    match said.split_once(", ") {
        Some(("background", port)) => {
            let port = port.strip_prefix("port ").and_then(|port| port.parse().ok());
            How::Background(port.unwrap_or_else(|| panic!("line {line}: which port?")))
        }
        Some(("after", condition)) => match condition.strip_prefix("port ") {
            Some(port) => How::After(format!(": < /dev/tcp/127.0.0.1/{port}")),
            None if ["larder ", "grep ", "test "].iter().any(|start| condition.starts_with(start)) => {
                How::After(condition.to_owned())
            }
            None => panic!("line {line}: readers do not see `{condition}`"),
        },
        Some(("not", _)) => How::Not,
        _ => panic!("line {line}: unknown `{said}`"),
    }
}

/// Returns the differences between the outputs and the page, one line each.
pub(crate) fn compare(page: &Page, outputs: &[Output]) -> Vec<String> {
    let mut problems = Vec::new();
    for (step, output) in page.steps.iter().filter(|step| step.is_run()).zip(outputs) {
        let shown = || format!("line {}: `{}`", step.line, step.commands);
        if !output.succeeded {
            problems.push(format!("{} failed:\n{}", shown(), output.text));
        } else if let Some(missing) = missing(&step.expected, &output.text) {
            problems.push(format!("{} did not print `{missing}`, but:\n{}", shown(), output.text));
        }
    }
    problems
}

/// Returns the first expected line that does not follow the ones before it.
fn missing<'e>(expected: &'e [String], output: &str) -> Option<&'e str> {
    let mut lines = output.lines().map(alike);
    expected
        .iter()
        .filter(|line| !line.is_empty() && *line != "...")
        .find(|wanted| {
            let wanted = alike(wanted);
            !lines.any(|line| line == wanted)
        })
        .map(String::as_str)
}

/// Normalizes a line by removing the parts that vary between runs: most numbers, units, names of days and months, and
/// the width of columns.
fn alike(line: &str) -> String {
    const DAYS: &str = "Mon, Tue, Wed, Thu, Fri, Sat, Sun,";
    const MONTHS: &str = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec";
    const UNITS: &str = "B KiB MiB GiB us ms s";
    let words: Vec<_> = line.split_whitespace().collect();
    let mut text = String::new();
    for (at, whole) in words.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| words.get(at)).copied().unwrap_or_default();
        if is_fixed(before, whole, words.get(at + 1).copied().unwrap_or_default()) {
            text.extend([*whole, " "]);
            continue;
        }
        let word = whole.replace(|c: char| c.is_ascii_digit(), "#");
        // As in `[22/Nov/2026`, the date of many logs.
        let word = MONTHS.split(' ').fold(word, |word, month| word.replace(&format!("/{month}/"), "/day/"));
        let word = word.as_str();
        let is_number = word.contains('#') && word.chars().all(|c| "#.,%*-".contains(c));
        let is_one_of = |words: &str| words.split(' ').any(|known| known == word);
        let kind = if is_number {
            "#"
        } else if is_one_of(DAYS) || is_one_of(MONTHS) {
            "day"
        } else if is_one_of(UNITS) {
            "unit"
        } else {
            word
        };
        text.push_str(kind);
        text.push(' ');
    }
    while text.contains("##") {
        text = text.replace("##", "#");
    }
    text
}

/// Whether `word` is equal in every run, with its digits: URLs, HTTP versions, statuses, and counts of things.
fn is_fixed(before: &str, word: &str, after: &str) -> bool {
    const THINGS: [&str; 6] = ["object", "objects", "node", "nodes", "request", "requests"];
    let number = word.trim_end_matches([',', ':', ';']);
    let is_number = number.starts_with(|c: char| c.is_ascii_digit());
    let is_status =
        number.len() == 3 && number.parse::<u16>().is_ok_and(|status| (100..600).contains(&status));
    let thing = after.trim_end_matches([',', ':', ';']);
    word.contains("://")
        || ["fwd-status=", "HTTP/"].iter().any(|start| word.starts_with(start))
        || is_status && (before.is_empty() || before == "status" || before.starts_with("HTTP/"))
        || is_number && THINGS.contains(&thing)
}

#[test]
fn a_page_is_read_as_steps() {
    let text = "```sh\none\n```\n```http\nA: 1\n```\n<!-- run: background, port 80 -->\n```sh\ntwo\n```\n\
                <!-- run: not, because it asks -->\n```console\n$ three \\\n  more\nout\n$ four\n```\n```toml\nx = 1\n```\n";
    let page = Page::read(text);
    let steps: Vec<_> =
        page.steps.iter().map(|s| (s.line, s.commands.as_str(), &s.how, s.expected.len())).collect();
    assert_eq!(
        steps,
        [
            (1, "one", &How::Foreground, 1),
            (8, "two", &How::Background(80), 0),
            (13, "three \\\n  more", &How::Not, 1),
            (16, "four", &How::Not, 0),
        ]
    );
}

#[test]
fn a_page_with_commands_that_readers_do_not_see_is_refused() {
    for hidden in ["<!-- setup\nmkdir a\n-->\n", "<!-- run: after, curl -s http://127.0.0.1/ -->\n"] {
        assert!(std::panic::catch_unwind(|| Page::read(hidden)).is_err(), "{hidden}");
    }
}

#[test]
fn blocks_become_files() {
    let page = Page::read("<!-- file: a.toml -->\n```toml\nx = 1\ny = 2\n```\n```toml\nz = 3\n```\n");
    assert_eq!(page.files, "cat > a.toml <<'END OF FILE'\nx = 1\ny = 2\nEND OF FILE\n");
    assert_eq!(page.steps, []);
}

#[test]
fn commands_that_no_step_has_are_found() {
    let text = "```\n$ larder top\n```\n```sh\nlarder top\n```\nlarder top\n```console\n$ larder top\n```\n```text\ncurl a\n```";
    assert_eq!(hidden(text), [2, 12]);
    assert!(hidden("```http\nHTTP/1.1 200 OK\n```\n").is_empty());
}

#[test]
fn output_is_compared_but_for_numbers() {
    let expected = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
    let output = "a: hit; ttl=7\nnoise\nlru   59.29%  1,234*\n";
    assert_eq!(missing(&expected(&["a: hit; ttl=354", "...", "lru 6.3% 99"]), output), None);
    assert_eq!(missing(&expected(&["lru 6% 9", "a: hit; ttl=1"]), output), Some("a: hit; ttl=1"));
    assert_eq!(missing(&expected(&["a: miss; ttl=1"]), output), Some("a: miss; ttl=1"));
    for (line, same, other) in [
        ("HTTP/1.1 200 OK", "HTTP/1.1 200 OK", "HTTP/1.1 404 OK"),
        ("Sun, 22 Nov 2026", "Tue, 01 Dec 2026", "Tue, 01 2026"),
        ("[22/Nov/2026 08:27] GET /a", "[01/Dec/2026 09:00] GET /a", "[22/Nov/2026 08:27] GET /b"),
        ("a; fwd-status=200; ttl=9", "a; fwd-status=200; ttl=8", "a; fwd-status=304; ttl=9"),
        ("in force on 3 of 3 nodes", "in force on 3 of 3 nodes", "in force on 3 of 2 nodes"),
        ("1 object, 12.3 KiB", "1 object, 9 B", "0 objects, 12.3 KiB"),
        ("301 http://a:9443/", "301 http://a:9443/", "301 http://a:9444/"),
        ("status 200, 5 s old", "status 200, 6 s old", "status 304, 5 s old"),
    ] {
        assert_eq!(missing(&expected(&[line]), same), None, "{line}");
        assert_eq!(missing(&expected(&[line]), other), Some(line));
    }
}
