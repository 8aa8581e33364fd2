//! The orderly end of a client's connection.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::io::{Reading, Writing};
use crate::base::clock;

/// Maximum time for which a client may continue to send after its last response before the connection is closed at
/// once. Closing at once would reset the connection, and the client would not receive the response.
const LINGER: Duration = Duration::from_secs(2);

/// Ends the connection, and lets the client read the last response before it is closed.
pub(crate) async fn linger(reading: &mut Reading, writing: &mut Writing) {
    if writing.finish().await.is_ok() {
        wait(reading).await;
    }
}

/// Waits until the client closes a connection that was ended.
pub(crate) async fn wait(reading: &mut Reading) {
    let end = clock::millis() + LINGER.as_millis() as u64;
    reading.within(LINGER);
    while clock::millis() < end {
        match reading.more().await {
            Ok(1..) => reading.input.clear(),
            _ => return,
        }
    }
}

/// Time for which a client that is refused may read the last bytes.
const FAREWELL: Duration = Duration::from_secs(1);

/// Sends the `last` bytes on a connection whose client may have sent a request already, and ends it, within
/// [`FAREWELL`]. Closing with unread bytes would reset the connection, and the client could lose them.
pub(crate) async fn part(stream: &mut TcpStream, last: &[u8]) {
    let parting = async {
        stream.write_all(last).await?;
        stream.shutdown().await?;
        let mut unread = [0; 1 << 10];
        while stream.read(&mut unread).await? > 0 {}
        io::Result::Ok(())
    };
    if !last.is_empty() {
        // A client that left does not receive them.
        let _ = timeout(FAREWELL, parting).await;
    }
}
