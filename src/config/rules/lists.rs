//! Files with lists, which rules name.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use larder_proxy::settings::{Domains, LARGEST_LIST};

use crate::config::unreadable::explain;

/// The domains in the file at `path`.
pub(super) fn domains(path: &str) -> Result<Arc<Domains>, String> {
    let text = read(Path::new(path)).map_err(|error| format!("cannot read {path}: {}", explain(&error)))?;
    let domains = Domains::parse(path, &text).map_err(|bad| {
        format!(
            "{path}:{}: '{}' is no domain, and no line of a hosts file",
            bad.line,
            bad.text.escape_debug()
        )
    })?;
    Ok(Arc::new(domains))
}

fn read(path: &Path) -> io::Result<String> {
    if fs::metadata(path)?.len() > LARGEST_LIST {
        return Err(io::Error::other("it is larger than 1GiB"));
    }
    let mut text = String::new();
    File::open(path)?.take(LARGEST_LIST).read_to_string(&mut text)?;
    Ok(text)
}
