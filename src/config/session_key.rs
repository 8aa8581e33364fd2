//! The key of sticky sessions, kept in the state directory, so that they outlast the process.

use std::io;
use std::path::Path;

use larder_proxy::Settings;
use larder_proxy::settings::Sticky;
use larder_store::private;

use super::self_signed::lock;
use crate::cli::files::unwritten;

/// The name of the file.
const FILE: &str = "sessions.key";

/// Gives the key to the sites with sticky sessions and without keys of their own, and makes it if there is none. The
/// error is the reason why there is none, in one line. Then sessions end with the process.
pub(crate) fn provide(settings: &mut Settings) -> Result<(), String> {
    let mut wanting: Vec<_> = settings.sites.iter_mut().filter_map(|site| site.sticky.as_mut()).collect();
    wanting.retain(|sticky| sticky.source().is_none());
    if wanting.is_empty() {
        return Ok(());
    }
    let Some(folder) = &settings.state else {
        return Err(ENDS.to_owned());
    };
    let key = keep(folder).map_err(|error| {
        format!("cannot keep {}: {}; {ENDS}", folder.join(FILE).display(), unwritten(&error))
    })?;
    wanting.into_iter().for_each(|sticky| sticky.use_kept_key(&key));
    Ok(())
}

const ENDS: &str = "sticky sessions end with this process: set STATE_DIRECTORY or HOME, or keys = file";

/// Returns the key in `folder`, made if it is not there.
fn keep(folder: &Path) -> io::Result<Vec<u8>> {
    let _locked = lock(folder)?;
    let path = folder.join(FILE);
    match private::read(&path) {
        Ok(key) if key.len() == Sticky::KEY => Ok(key),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => {
            let key = Sticky::random_key();
            private::write(&path, &key)?;
            Ok(key.to_vec())
        }
    }
}
