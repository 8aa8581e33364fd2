//! The files of a config: the first one, and those that it includes, which may include others.
//!
//! Each file is read after the one that includes it, so that its keys replace those; its tables such as `[[site]]` are
//! added behind. The files of a pattern are read in the order of their names.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use larder_proxy::base::whole_file;
use larder_proxy::settings::Pattern;

use super::draft::Draft;
use super::raw;
use crate::cli::files::unread;

/// Reads `text` of the file called `file`, and the files that it includes, into `draft`. Returns all problems.
pub(super) fn read(file: &str, text: &str, draft: &mut Draft) -> Vec<String> {
    let mut files = FileSet::default();
    files.known.insert(identity(Path::new(file)));
    files.read(file, text, draft);
    files.problems
}

#[derive(Default)]
struct FileSet {
    /// The files that were read, by their absolute paths.
    known: BTreeSet<PathBuf>,
    problems: Vec<String>,
}

impl FileSet {
    fn read(&mut self, file: &str, text: &str, draft: &mut Draft) {
        self.problems.extend(raw::read(file, text, draft).err().unwrap_or_default());
        let patterns = std::mem::take(&mut draft.include);
        let place = draft.place(&["include"]);
        for pattern in patterns {
            let named = matching(Path::new(file), &pattern);
            let read = named.and_then(|paths| paths.iter().try_for_each(|path| self.include(path, draft)));
            if let Err(why) = read {
                raw::mark_unread(draft);
                self.problems.push(format!("{place}: include: {why}"));
            }
        }
    }

    fn include(&mut self, path: &Path, draft: &mut Draft) -> Result<(), String> {
        let shown = path.display();
        if !self.known.insert(identity(path)) {
            return Err(format!("{shown} is part of this config already"));
        }
        let text = whole_file::text(path, whole_file::LARGEST)
            .map_err(|error| format!("cannot read {shown}: {}", unread(&error)))?;
        self.read(&shown.to_string(), &text, draft);
        Ok(())
    }
}

/// Returns a name that is the same for all paths to a file.
fn identity(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns the paths that `pattern` in the file `including` stands for: relative to that file's directory, `*` in the
/// last part stands for any characters, and hidden files match only by their names.
fn matching(including: &Path, pattern: &str) -> Result<Vec<PathBuf>, String> {
    let path = including.parent().unwrap_or(Path::new("")).join(pattern);
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let directory = path.parent().unwrap_or(Path::new("")).to_owned();
    if directory.to_string_lossy().contains('*') {
        return Err(format!("'{}': only the name of the file may contain *", pattern.escape_debug()));
    }
    if !name.contains('*') {
        return Ok(vec![path]);
    }
    let pattern = Pattern::parse(&name)?;
    let listed = if directory.as_os_str().is_empty() { Path::new(".") } else { &*directory };
    let entries = fs::read_dir(listed)
        .map_err(|error| format!("cannot read {}: {}", listed.display(), unread(&error)))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let names = names.filter(|name| !name.starts_with('.') && pattern.matches(name.as_bytes()));
    let names: BTreeSet<_> = names.collect();
    Ok(names.into_iter().map(|name| directory.join(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::flags::Flags;
    use crate::config::load;

    /// Writes files in a folder, and returns the result of the first, with the folder's name left out.
    fn config(files: &[(&str, &str)]) -> Result<larder_proxy::Settings, Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let above = format!("{}/", folder.path().display());
        let settings = load(Some(&folder.path().join(files[0].0)), &Flags::default());
        settings.map_err(|wrong| wrong.problems.iter().map(|line| line.replace(&above, "")).collect())
    }

    const ZERO: &str = "a:1: include: cannot read /dev/zero: it is no regular file";
    const SITE_B: &str = "[[site]]\nhosts = 'b.test'\norigin = 'http://b'";

    #[test]
    fn included_files_override_keys_and_add_tables_in_their_order() {
        let settings = config(&[
            (
                "larder.toml",
                "include = ['conf.d/*.toml']\nname = 'first'\n[[site]]\nhosts = 'a.test'\norigin = 'http://a'",
            ),
            ("conf.d/20.toml", SITE_B),
            ("conf.d/10.toml", "include = 'more/c'\nname = 'second'"),
            ("conf.d/more/c", "[[site]]\nhosts = 'c.test'\norigin = 'http://c'\n[memory]\nsize = '64MiB'"),
            ("conf.d/.hidden.toml", "name = 'hidden'"),
            ("conf.d/notes.txt", "no config"),
        ]);
        let settings = settings.unwrap();
        let sites: Vec<_> = settings.sites.iter().map(|site| site.name.as_str()).collect();
        assert_eq!((settings.name.as_str(), sites), ("second", vec!["a.test", "c.test", "b.test"]));
        assert_eq!(settings.memory.capacity.amount, 64 << 20);
    }

    #[test]
    fn problems_of_included_files_name_their_file_and_line() {
        for (files, expected) in [
            (
                [("a", "include = 'conf.d/*'"), ("conf.d/b", "\nthreads = 0")],
                "conf.d/b:2: threads: 0 is not a number from 1 to 1024; also valid: \"auto\"",
            ),
            (
                [("a", "include = 'b'"), ("b", "include = 'a'")],
                "b:1: include: a is part of this config already",
            ),
            ([("a", "\ninclude = 'a'"), ("b", "")], "a:2: include: a is part of this config already"),
            ([("a", "include = ['b', '*']"), ("b", "")], "a:1: include: a is part of this config already"),
            ([("a", "include = 'c'"), ("b", "")], "a:1: include: cannot read c: no such file"),
            ([("a", "include = '/dev/zero'"), ("b", "")], ZERO),
            ([("a", "include = 'none/*'"), ("b", "")], "a:1: include: cannot read none: no such file"),
            (
                [("a", "include = '*/b'"), ("b", "")],
                "a:1: include: '*/b': only the name of the file may contain *",
            ),
            (
                [("a", &format!("include = 'b'\n{SITE_B}")), ("b", SITE_B)],
                "b:1: host 'b.test' is taken by 'b.test' of the [[site]] at a:2",
            ),
        ] {
            assert_eq!(config(&files).unwrap_err(), [expected]);
        }
        assert!(config(&[("a", "include = '*.toml'")]).is_ok(), "a pattern may match nothing");
    }
}
