//! The keys of session tickets, which the nodes of a cluster share, so that a client can resume its session at any node.
//!
//! The engine stores one random key, encrypted, and removes it after a time. Each node asks for it regularly; the first
//! node that finds none stores another one. So only the clock of the engine counts. A node without the engine, or in a
//! cluster without a token, has keys of its own.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use zeroize::Zeroizing;

use super::cipher::Cipher;
use super::engine::EngineError;
use super::sealed::ForgeryCounts;
use super::{Cluster, cipher};
use crate::net::tls::tickets::{PERIOD, Tickets, random_secret};

/// Interval between looks at the engine.
const LOOK: Duration = Duration::from_secs(1);
/// Time for which the engine stores a key: less than the time after which a node replaces it itself.
const STORED: Duration = PERIOD.saturating_sub(Duration::from_secs(3600));
/// The name of the key on the engine, and for its encryption.
const FIELD: &str = "ticket key";

/// Returns the stored value, or stores another one and returns that.
///
/// Keys: the value's. Values: the other one, and the milliseconds for which it is stored.
const GET_OR_SET: &str = "\
local held = redis.call('GET', KEYS[1])
if held then return held end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]";

/// Starts to share the keys of `tickets` with the other nodes of `cluster`.
pub fn share(cluster: &Arc<Cluster>, tickets: &Arc<Tickets>) {
    let (this, tickets) = (Arc::clone(cluster), Arc::clone(tickets));
    cluster.spawn(async move {
        let Some(cipher) = &this.cipher else { return };
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = agree(&this, cipher, &tickets).await {
                tracing::debug!("the key of session tickets is not shared: {error}");
            }
        }
    });
}

/// Adopts the key of the engine, or a new one that is stored there from now on.
async fn agree(cluster: &Cluster, cipher: &Cipher, tickets: &Tickets) -> Result<(), EngineError> {
    let sealed =
        random_secret().and_then(|secret| cipher.seal(FIELD, &*secret)).map_err(cipher::no_numbers)?;
    let mut command = cluster.script(GET_OR_SET, &["tickets"]);
    command.arg(sealed).arg(STORED.as_millis() as u64);
    let held: Vec<u8> = cluster.engine.command(&command).await?;
    let opened = cipher.open(FIELD, &held).map(Zeroizing::new);
    match opened.and_then(|secret| Some(Zeroizing::new(secret.as_slice().try_into().ok()?))) {
        Some(secret) => tickets.adopt(&secret),
        None => ForgeryCounts::count(&cluster.forged.members, "a key of session tickets on the engine"),
    }
    Ok(())
}
