//! Files with lists, which rules name.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use larder_proxy::settings::{BadLine, Domains, LARGEST_LIST, Tokens, Users};

use crate::config::unreadable::explain;

/// The users in the file at `path`.
pub(super) fn users(path: &str) -> Result<Arc<Users>, String> {
    Users::parse(path, &text(path)?).map(Arc::new).map_err(|bad| told(path, &bad))
}

/// The tokens in the file at `path`.
pub(super) fn tokens(path: &str) -> Result<Arc<Tokens>, String> {
    Tokens::parse(path, &text(path)?).map(Arc::new).map_err(|bad| told(path, &bad))
}

fn told(path: &str, BadLine { line, why }: &BadLine) -> String {
    format!("{path}:{line}: {why}")
}

/// The domains in the file at `path`.
pub(super) fn domains(path: &str) -> Result<Arc<Domains>, String> {
    let text = text(path)?;
    let domains = Domains::parse(path, &text).map_err(|bad| {
        format!(
            "{path}:{}: '{}' is no domain, and no line of a hosts file",
            bad.line,
            bad.text.escape_debug()
        )
    })?;
    Ok(Arc::new(domains))
}

fn text(path: &str) -> Result<String, String> {
    read(Path::new(path)).map_err(|error| format!("cannot read {path}: {}", explain(&error)))
}

fn read(path: &Path) -> io::Result<String> {
    if fs::metadata(path)?.len() > LARGEST_LIST {
        return Err(io::Error::other("it is larger than 1GiB"));
    }
    let mut text = String::new();
    File::open(path)?.take(LARGEST_LIST).read_to_string(&mut text)?;
    Ok(text)
}
