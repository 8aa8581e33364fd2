//! The statistics database: the default file, and the name of this proxy in it.

use std::net::SocketAddr;

use larder_proxy::settings::{Database, Statistics};

use crate::cli::state::state_directory;
use crate::config::draft::DatabasePlace;

/// Returns the settings as written, with the database at `place`, in a proxy that first listens at `address`.
pub(super) fn settle(place: DatabasePlace, written: Statistics, address: Option<SocketAddr>) -> Statistics {
    let database = match place {
        DatabasePlace::Default => state_directory()
            .map_or(Database::Homeless, |directory| Database::Default(directory.join("statistics.db"))),
        DatabasePlace::Off => Database::Off,
        DatabasePlace::At(url) => Database::At(url),
    };
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    let instance = address.map_or_else(|| host.to_string(), |address| format!("{host}:{}", address.port()));
    let instance = instance.chars().take(64).collect();
    Statistics { database, instance, ..written }
}
