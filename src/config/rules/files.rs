//! Files whose content is the answer of rules. They are read with the config, and kept in memory.

use std::io;
use std::path::Path;

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use larder_proxy::base::whole_file;
use toml::de::DeValue;

use super::answers::any_status;
use super::values::{entries, unknown};
use crate::cli::files;
use crate::config::draft::rule::ErrorPage;
use crate::config::lists::{status_text, string};

/// The largest file, in bytes.
const LARGEST: u64 = 4 << 20;

/// Media types by file name extension.
const TYPES: [(&str, &str); 15] = [
    ("html", "text/html; charset=utf-8"),
    ("htm", "text/html; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("xml", "application/xml"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("avif", "image/avif"),
    ("ico", "image/x-icon"),
    ("pdf", "application/pdf"),
];

/// Returns the media type of text.
pub(super) fn plain() -> HeaderValue {
    HeaderValue::from_static("text/plain; charset=utf-8")
}

/// Reads a file, and returns its content and its media type by its extension; text if the extension is unknown.
pub(super) fn read(path: &Path) -> Result<(Bytes, HeaderValue), String> {
    let way =
        if path.to_string_lossy().contains("://") { "; write the path of a file, not a URL" } else { "" };
    let unread = |error: io::Error| format!("cannot read {}: {}{way}", path.display(), files::unread(&error));
    let bytes = whole_file::bytes(path, LARGEST).map_err(unread)?;
    let extension = path.extension().map(|end| end.to_string_lossy().to_ascii_lowercase());
    let known = TYPES.iter().find(|(end, _)| extension.as_deref() == Some(end));
    Ok((bytes.into(), known.map_or_else(plain, |(_, media)| HeaderValue::from_static(media))))
}

/// Parses `{ 404 = "404.html", 5xx = "sorry.html" }`; a page may also be a table with `file`, `status` or both.
pub(super) fn error_pages(value: &DeValue<'_>) -> Result<Vec<ErrorPage>, String> {
    let table =
        value.as_table().ok_or("expected a table such as { 404 = \"404.html\", 5xx = \"sorry.html\" }")?;
    let page = |(key, value): (&str, &DeValue<'_>)| {
        let statuses = status_text(key)?;
        if *statuses.start() < 400 {
            return Err(format!("'{}': pages are for errors, which are 400 to 599", key.escape_debug()));
        }
        let Some(table) = value.as_table() else {
            return Ok(ErrorPage { statuses, file: Some(string(value)?.into()), status: None });
        };
        let (mut file, mut status) = (None, None);
        for (key, value) in entries(table) {
            match key {
                "file" => file = Some(string(value)?.into()),
                "status" => match any_status(value)? {
                    StatusCode::NO_CONTENT => return Err("a response with status 204 has no page".to_owned()),
                    own => status = Some(own),
                },
                _ => return Err(unknown(key, &["file", "status"])),
            }
        }
        match file.is_none() && status.is_none() {
            true => Err("it has neither 'file' nor 'status'".to_owned()),
            false => Ok(ErrorPage { statuses, file, status }),
        }
    };
    entries(table).map(page).collect()
}
