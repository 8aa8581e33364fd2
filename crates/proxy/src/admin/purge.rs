//! `POST /purge`: forgets what is stored for a URL, and what is being fetched for it.

use std::sync::Arc;

use http::{Response, StatusCode};
use serde::Serialize;

use super::query::Query;
use super::{Answer, TEXT, json, response};
use crate::inventory::{self, Keys};
use crate::worker::Shared;

/// What a purge came to.
#[derive(Debug, Serialize)]
struct Purged<'u> {
    url: &'u str,
    /// Responses that are forgotten. Of variants that only a disk had, one is counted.
    objects: u64,
    /// Their bytes.
    bytes: u64,
}

/// Forgets what is stored for the URL that `query` names, for clients of all listeners.
pub(super) async fn answer(shared: &Arc<Shared>, query: Option<&str>) -> Response<Answer> {
    let query = match read(query) {
        Ok(query) => query,
        Err(why) => return response(StatusCode::BAD_REQUEST, TEXT, format!("{why}\n").into()),
    };
    let (url, keys) = query;
    let shared = Arc::clone(shared);
    // What a disk has of it has to be read to be counted.
    match tokio::task::spawn_blocking(move || purge(&shared, &keys)).await {
        Ok((objects, bytes)) => {
            tracing::info!("purged {}: {objects} objects, {bytes} bytes", url.escape_debug());
            json(&Purged { url: &url, objects, bytes })
        }
        Err(error) => response(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n").into()),
    }
}

fn read(query: Option<&str>) -> Result<(String, Keys), String> {
    let query = Query::read(query, &["url"])?;
    let url = query.get("url").ok_or("which url? write ?url=URL, percent-encoded")?;
    Ok((url.to_owned(), inventory::keys(url)?))
}

fn purge(shared: &Shared, keys: &Keys) -> (u64, u64) {
    let mut sum = (0, 0);
    for key in keys {
        let (on_disk, bytes_on_disk) = shared.store.disks.held(key);
        let (in_memory, bytes_in_memory) = shared.fills.purge(key);
        // What both have is the same.
        sum.0 += on_disk.max(in_memory as u64);
        sum.1 += bytes_on_disk.max(bytes_in_memory);
    }
    sum
}
