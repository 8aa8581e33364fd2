//! Checks of source files: their length, forbidden contents (leftovers, paths of one machine), and the beginning of
//! each crate.

use super::{Package, Text};

/// The maximum number of lines of a file. One idea a file is the rule; a file of this length has more.
const LONGEST: usize = 800;
/// The number of lines from which on a file gets a warning, to look for a second idea in it.
const LONG: usize = 500;

/// Files that may be longer, with the reason.
pub(super) const LONG_FILES: &[(&str, &str)] =
    &[("docs/report/report.html", "`larder-lab experiment` writes it, with its pictures")];

const SOURCE_ENDINGS: &[&str] = &[".rs", ".py", ".sh", ".js", ".css", ".html"];

/// Words of unfinished code. They are split, so that this file does not contain them itself.
const LEFTOVERS: &[&str] =
    &[concat!("todo", "!"), concat!("unimplemented", "!"), concat!("dbg", "!"), concat!("FIX", "ME")];

/// Top-level folders that exist only on one machine, or that any machine may empty.
const MACHINE_FOLDERS: &[&str] = &["home", "root", "Users", "tmp", "mnt", "work"];

fn is_source(path: &str) -> bool {
    SOURCE_ENDINGS.iter().any(|ending| path.ends_with(ending))
}

/// Returns source files over [`LONGEST`] lines that are not in `allowed`, and entries of `allowed` that are not needed.
pub(super) fn lengths(files: &[Text], allowed: &[(&str, &str)]) -> Vec<String> {
    let long = over(files, LONGEST);
    let excused = |path: &str| allowed.iter().any(|(known, _)| *known == path);
    let too_long = long
        .iter()
        .filter(|(path, _)| !excused(path))
        .map(|(path, lines)| format!("{path}: {lines} lines, over {LONGEST}"));
    let needless = allowed
        .iter()
        .filter(|(path, _)| !long.iter().any(|(long, _)| long == path))
        .map(|(path, _)| format!("{path}: is excused for its length and not over {LONGEST} lines"));
    too_long.chain(needless).collect()
}

/// Returns warnings of source files over [`LONG`] lines that no limit refuses.
pub(super) fn warnings(files: &[Text]) -> Vec<String> {
    let long = over(files, LONG).into_iter().filter(|(_, lines)| *lines <= LONGEST);
    long.map(|(path, lines)| format!("{path}: {lines} lines; does it have one idea?")).collect()
}

/// Returns the source files with more lines than `limit`, and their lines.
fn over(files: &[Text], limit: usize) -> Vec<(&str, usize)> {
    let sources = files.iter().filter(|file| is_source(&file.path));
    sources
        .map(|file| (file.path.as_str(), file.text.lines().count()))
        .filter(|(_, lines)| *lines > limit)
        .collect()
}

/// Returns lines of source that contain a word of [`LEFTOVERS`].
pub(super) fn leftovers(files: &[Text]) -> Vec<String> {
    let sources = files.iter().filter(|file| is_source(&file.path));
    let find =
        |line: &str| LEFTOVERS.iter().find(|word| line.contains(**word)).map(|word| (*word).to_owned());
    lines_where(sources, find, "leftover")
}

/// Returns lines in any file that contain an absolute path into a folder of one machine.
pub(super) fn machine_paths(files: &[Text]) -> Vec<String> {
    lines_where(files.iter(), machine_path, "a path of one machine")
}

fn machine_path(line: &str) -> Option<String> {
    MACHINE_FOLDERS.iter().map(|folder| format!("/{folder}/")).find(|path| {
        line.match_indices(path.as_str()).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            // After a letter, a dot or a bracket it is the middle of a URL or of a relative path.
            !before.is_some_and(|before| before.is_alphanumeric() || "._-~*})]>%".contains(before))
        })
    })
}

fn lines_where<'a>(
    files: impl Iterator<Item = &'a Text>,
    find: impl Fn(&str) -> Option<String>,
    what: &str,
) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files {
        for (number, line) in file.text.lines().enumerate() {
            if let Some(word) = find(line) {
                problems.push(format!("{}:{}: {what}: {word}", file.path, number + 1));
            }
        }
    }
    problems
}

/// Returns crates that do not begin with a description of their purpose.
pub(super) fn module_docs(packages: &[Package], files: &[Text]) -> Vec<String> {
    let entries = packages.iter().flat_map(|package| &package.entries);
    let documented = |entry: &&String| {
        let file = files.iter().find(|file| file.path == **entry);
        file.is_some_and(|file| file.text.trim_start().starts_with("//! "))
    };
    entries
        .filter(|entry| !documented(entry))
        .map(|entry| format!("{entry}: does not begin with `//! ` and what it is for"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{
        LEFTOVERS, LONG, LONGEST, MACHINE_FOLDERS, Package, Text, leftovers, lengths, machine_path,
        module_docs, warnings,
    };

    fn file(path: &str, text: &str) -> Text {
        Text { path: path.into(), text: text.into() }
    }

    #[test]
    fn only_sources_over_the_limit_are_too_long() {
        let files = [
            file("a.rs", &"\n".repeat(LONGEST)),
            file("b.rs", &"\n".repeat(LONGEST + 1)),
            file("c.md", &"\n".repeat(LONGEST + 1)),
        ];
        assert_eq!(lengths(&files, &[]), ["b.rs: 801 lines, over 800"]);
        assert!(lengths(&files, &[("b.rs", "a table")]).is_empty());
    }

    #[test]
    fn long_sources_below_the_limit_get_a_warning() {
        let files = [LONG, LONG + 1, LONGEST + 1].map(|lines| file("a.rs", &"\n".repeat(lines)));
        assert_eq!(warnings(&files), ["a.rs: 501 lines; does it have one idea?"]);
    }

    #[test]
    fn an_excuse_that_nothing_needs_is_a_problem() {
        let problems = lengths(&[file("a.rs", "")], &[("a.rs", "was long once")]);
        assert_eq!(problems, ["a.rs: is excused for its length and not over 800 lines"]);
    }

    #[test]
    fn each_leftover_is_found_with_its_line() {
        for word in LEFTOVERS {
            let problems = leftovers(&[file("a.rs", &format!("fn a() {{\n    {word}\n"))]);
            assert_eq!(problems, [format!("a.rs:2: leftover: {word}")]);
        }
        assert!(leftovers(&[file("a.rs", "todo(); // dbg")]).is_empty());
    }

    #[test]
    fn absolute_paths_of_one_machine_are_found() {
        for folder in MACHINE_FOLDERS {
            for line in [format!("\"/{folder}/x\""), format!("/{folder}/"), format!("cd /{folder}/a/b")] {
                assert_eq!(machine_path(&line), Some(format!("/{folder}/")), "{line}");
            }
            for line in [format!("http://a.b/{folder}/"), format!("../{folder}/"), format!("/{folder}less")] {
                assert_eq!(machine_path(&line), None, "{line}");
            }
        }
    }

    #[test]
    fn a_crate_says_what_it_is_for() {
        let crate_of = |entry: &str| Package {
            name: entry.into(),
            dependencies: Vec::new(),
            entries: vec![entry.into()],
        };
        let packages = [crate_of("good.rs"), crate_of("mute.rs")];
        let files =
            [file("good.rs", "//! A queue.\n"), file("mute.rs", "// A queue.\n"), file("part.rs", "")];
        assert_eq!(
            module_docs(&packages, &files),
            ["mute.rs: does not begin with `//! ` and what it is for"]
        );
    }
}
