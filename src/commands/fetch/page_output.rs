//! Prints or saves a fetched page.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::args::Fetch;
use super::names;
use crate::cli::Failure;
use crate::cli::files::unwritten;

/// Characters of a line if there is no terminal.
const WIDTH: usize = 80;

/// The destination and form of pages.
pub(super) struct PageOutput {
    place: Destination,
    /// Whether HTML is converted to text.
    text: bool,
}

enum Destination {
    Nowhere,
    Output,
    File(PathBuf),
    Folder(PathBuf),
}

impl PageOutput {
    /// Reads the destination from the arguments; `measured` pages are saved, but not shown. Errors: several pages would
    /// go into one file.
    pub(super) fn new(args: &Fetch, measured: bool) -> Result<Self, Failure> {
        let place = match (&args.output, &args.save) {
            (Some(_), _) if args.urls.len() > 1 => {
                let count = args.urls.len();
                return Err(Failure::Refused(format!(
                    "{count} pages do not go into one file; use --save FOLDER"
                )));
            }
            (Some(file), _) => Destination::File(file.clone()),
            (None, Some(folder)) => Destination::Folder(folder.clone()),
            (None, None) if measured => Destination::Nowhere,
            (None, None) => Destination::Output,
        };
        Ok(Self { place, text: args.text })
    }

    /// Whether pages have to be written in the order of the URLs.
    pub(super) fn in_order(&self) -> bool {
        matches!(self.place, Destination::Output)
    }

    /// Whether pages are shown or saved at all.
    pub(super) fn keeps(&self) -> bool {
        !matches!(self.place, Destination::Nowhere)
    }

    /// Shows or saves the page at `url`. Errors: the page cannot be written there; in one line.
    pub(super) fn page(&self, url: &str, page: &[u8]) -> Result<(), String> {
        let cannot = |path: &Path| {
            let path = path.display().to_string();
            move |error: io::Error| format!("cannot write to '{path}': {}", unwritten(&error))
        };
        match &self.place {
            Destination::Nowhere => Ok(()),
            Destination::Output => {
                print(&self.shape(page)).map_err(|error| format!("cannot print it: {error}"))
            }
            Destination::File(file) => fs::write(file, self.shape(page)).map_err(cannot(file)),
            Destination::Folder(folder) => {
                let file = folder.join(names::file(url));
                let parent = file.parent().unwrap_or(folder);
                fs::create_dir_all(parent).map_err(cannot(parent))?;
                fs::write(&file, self.shape(page)).map_err(cannot(&file))
            }
        }
    }

    fn shape<'p>(&self, page: &'p [u8]) -> std::borrow::Cow<'p, [u8]> {
        if self.text { as_text(page, width()).into_bytes().into() } else { page.into() }
    }
}

/// Prints `page`. A reader that has closed the pipe, such as `head`, is not a failure.
fn print(page: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(page).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

/// Returns the number of characters in a line of the terminal.
fn width() -> usize {
    let terminal = rustix::termios::tcgetwinsize(io::stdout()).ok();
    terminal.map(|size| usize::from(size.ws_col)).filter(|width| *width > 0).unwrap_or(WIDTH)
}

/// Formats `page` for a terminal of `width` characters. Content that begins with a tag is HTML; other content is
/// unchanged, except that control characters are removed.
fn as_text(page: &[u8], width: usize) -> String {
    let is_html = page.trim_ascii_start().starts_with(b"<");
    let rendered = is_html.then(|| html2text::from_read(page, width).ok()).flatten();
    let mut text = rendered.unwrap_or_else(|| String::from_utf8_lossy(page).into_owned());
    text.retain(|letter| letter == '\n' || letter == '\t' || !letter.is_control());
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::as_text;

    #[test]
    fn html_becomes_lines_that_fit() {
        let page = b" <html><body><h1>Pears</h1><p>One <b>two</b> three four</p><ul><li>five</li></ul></body></html>";
        assert_eq!(as_text(page, 12), "# Pears\n\nOne **two**\nthree four\n* five\n");
        assert_eq!(as_text(b"<p>\x1b[2Jgone &#27;[1m</p>", 40), "[2Jgone [1m\n");
    }

    #[test]
    fn text_that_is_no_html_keeps_its_lines() {
        assert_eq!(as_text(b"a  b\r\nc\x1b[2J\x07\0", 2), "a  b\nc[2J\n");
        assert_eq!(as_text(b"", 80), "\n");
        assert_eq!(as_text(b"\xff < \t.", 80), "\u{fffd} < \t.\n");
    }
}
