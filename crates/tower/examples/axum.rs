//! A backend of users and their paths, written with axum, behind tag pools.
//!
//! `cargo run -p larder-tower --example axum`, then `curl -i http://127.0.0.1:3000/paths/1` shows an `ETag`.
//! A request with this tag in `If-None-Match` is answered 304, until `curl -X PUT
//! http://127.0.0.1:3000/users/1` changes the user in the path's response.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{Path, State};
use axum::routing::get;
use axum::{Json, Router};
use larder_tower::{Couplings, Settings, TagLayer};
use tokio::net::TcpListener;

/// The number of changes of users.
type Changes = Arc<AtomicU64>;

async fn show(Path(id): Path<u64>, State(changes): State<Changes>) -> Json<Vec<u64>> {
    Json(vec![id, changes.load(Ordering::SeqCst)])
}

async fn change(State(changes): State<Changes>) {
    changes.fetch_add(1, Ordering::SeqCst);
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let couplings = BTreeMap::from([("users".into(), vec!["paths".into()])]);
    // The data is in this process, so that no change of an earlier process can still be in progress.
    let tags =
        TagLayer::settled(Settings { couplings: Couplings::new(&couplings, false), ..Settings::default() });
    let app = Router::new()
        .route("/users/{id}", get(show).put(change))
        .route("/paths/{id}", get(show))
        .layer(tags)
        .with_state(Changes::default());
    axum::serve(TcpListener::bind("127.0.0.1:3000").await?, app).await
}
