//! The tunnels that are intercepted.

use larder_proxy::settings::{Intercept, Listener, Role};

use super::problems::Problems;
use crate::config::draft::Draft;
use crate::config::{authority, registries};

/// Returns the settings of interception; `None` if no host is intercepted.
pub(super) fn settle(draft: &Draft, listen: &[Listener], problems: &mut Problems<'_>) -> Option<Intercept> {
    let settings = &draft.intercept;
    if settings.hosts.is_empty() {
        return None;
    }
    if !listen.iter().any(|listener| listener.role == Role::Forward) {
        problems.add(&["intercept.hosts"], "intercept.hosts needs a forward proxy: set forward.listen");
    }
    let files = authority::files(settings.ca.clone(), &draft.place(&["intercept.ca", "intercept.hosts"]));
    let files = files.map_err(|why| problems.add(&["intercept.hosts"], &why)).ok()?;
    let (hosts, never) = (registries::expand(&settings.hosts), registries::expand(&settings.never));
    Some(Intercept { hosts, never, known: Vec::new(), authority: files })
}
