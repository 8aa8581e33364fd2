//! The orderly end of a client's connection.

use std::time::Duration;

use super::io::{ReadHalf, WriteHalf};
use crate::base::clock;

/// Maximum time for which a client may continue to send after its last response before the connection is closed at
/// once. Closing at once would reset the connection, and the client would not receive the response.
pub const LINGER: Duration = Duration::from_secs(2);

/// Ends the connection, and lets the client read the last response before it is closed.
pub async fn linger(reading: &mut ReadHalf, writing: &mut WriteHalf) {
    if writing.finish().await.is_ok() {
        wait(reading).await;
    }
}

/// Waits until the client closes a connection that was ended.
pub async fn wait(reading: &mut ReadHalf) {
    let end = clock::millis() + LINGER.as_millis() as u64;
    reading.within(LINGER);
    while clock::millis() < end {
        match reading.more().await {
            Ok(1..) => reading.input.clear(),
            _ => return,
        }
    }
}
