//! Watches files that rules and `trust` name: when one changes, the config is read again, as after SIGHUP.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, thread};

use larder_proxy::Settings;
use larder_proxy::base::file_version::FileVersion;
use signal_hook::consts::SIGHUP;
use signal_hook::low_level::raise;
use tracing::info;

/// The interval of the checks. A changed file has to be unchanged for as long before it is read: it may still be
/// written.
const EVERY: Duration = Duration::from_secs(1);

/// The files in use, with their versions.
#[derive(Clone, Debug, Default)]
pub(super) struct WatchedFiles(Arc<Mutex<Versions>>);

type Versions = BTreeMap<PathBuf, Option<FileVersion>>;

impl WatchedFiles {
    /// Returns the settings that `load` reads. It reads them again until the versions of all their files were known
    /// before the read, so that no change is missed. Errors: the errors of `load`. Then the same files are watched.
    pub(super) fn load<E>(&self, load: impl Fn() -> Result<Settings, E>) -> Result<Settings, E> {
        let mut known = self.lock();
        loop {
            *known = versions(known.keys().map(PathBuf::as_path));
            let settings = load()?;
            let are_known = files(&settings).all(|path| matches!(known.get(path), Some(Some(_))));
            let version = |path: &Path| known.get(path).copied().flatten();
            *known = files(&settings).map(|path| (path.to_owned(), version(path))).collect();
            if are_known {
                return Ok(settings);
            }
        }
    }

    /// Checks for changes for as long as the process lives. Errors: the thread cannot be started.
    pub(super) fn start(self) -> io::Result<()> {
        thread::Builder::new().name("files".to_owned()).spawn(move || self.run())?;
        Ok(())
    }

    fn run(&self) {
        let mut last = self.lock().clone();
        loop {
            thread::sleep(EVERY);
            let known = self.lock().clone();
            let now = versions(known.keys().map(PathBuf::as_path));
            let changed = now.iter().find(|(path, version)| known.get(*path) != Some(version));
            if let Some((path, _)) = changed.filter(|_| now == last) {
                info!("{} has changed", path.display());
                // A signal to this process cannot fail here.
                let _ = raise(SIGHUP);
            }
            last = now;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Versions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn files(settings: &Settings) -> impl Iterator<Item = &Path> {
    let sites = settings.sites.iter().flat_map(|site| &site.site_rules);
    let rules = sites.chain(&settings.forward.site_rules);
    let keys = settings.sites.iter().filter_map(|site| Some(Path::new(site.sticky.as_ref()?.source()?)));
    let proxies = settings.trust.proxies.files().map(Path::new);
    rules.flat_map(|rule| &rule.files).map(PathBuf::as_path).chain(proxies).chain(keys)
}

fn versions<'p>(paths: impl Iterator<Item = &'p Path>) -> Versions {
    paths.map(|path| (path.to_owned(), FileVersion::of(path))).collect()
}
