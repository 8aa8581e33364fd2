//! `GET /config`: the keys of the config in force, and those that differ in its file. Secrets are compared and not shown.

use std::path::PathBuf;
use std::sync::Arc;

use larder_words::debug_as;
use serde::Serialize;

use super::{Call, Outcome, json};
use crate::base::settings::{ConfigDifference, ConfigKeys};

/// Reads a config; the errors are lines.
type ConfigReader = dyn Fn() -> Result<ConfigKeys, Vec<String>> + Send + Sync;

/// The file of the config that runs.
#[derive(Clone)]
pub struct ConfigFile {
    path: PathBuf,
    read: Arc<ConfigReader>,
}

impl ConfigFile {
    /// Returns the file at `path`, which `read` reads as a reload would.
    pub fn new(
        path: PathBuf,
        read: impl Fn() -> Result<ConfigKeys, Vec<String>> + Send + Sync + 'static,
    ) -> Self {
        Self { path, read: Arc::new(read) }
    }
}

debug_as!(ConfigFile, |file| "{}", file.path.display());

/// The config in force, compared with its file.
#[derive(Debug, Default, Serialize)]
struct ConfigReport {
    /// The keys in force that do not have their defaults.
    keys: ConfigKeys,
    /// The path of the file; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    /// The keys that have other values in the file.
    differences: Vec<ConfigDifference>,
    /// The errors in the file, which then cannot be compared.
    problems: Vec<String>,
}

impl ConfigReport {
    fn of(keys: ConfigKeys, file: Option<ConfigFile>) -> Self {
        let Some(ConfigFile { path, read }) = file else { return Self { keys, ..Self::default() } };
        let (differences, problems) = match read() {
            Ok(written) => (keys.differences(&written), Vec::new()),
            Err(problems) => (Vec::new(), problems),
        };
        Self { keys, file: Some(path), differences, problems }
    }
}

/// Reads the file, and compares it.
pub(super) async fn answer(call: Call<'_>) -> Outcome {
    let (keys, file) = (call.state.shared.plan().settings.keys.clone(), call.state.config.clone());
    let permit = call.state.look()?;
    // The disk may be slow.
    let report = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        ConfigReport::of(keys, file)
    });
    Ok(json(&report.await?))
}
