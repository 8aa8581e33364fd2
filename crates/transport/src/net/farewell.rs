//! The end of a connection whose client is refused before its protocol begins.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Time for which a client that is refused may read the last bytes.
const FAREWELL: Duration = Duration::from_secs(1);

/// Sends the `last` bytes on a connection whose client may have sent a request already, and ends it, within
/// [`FAREWELL`]. Closing with unread bytes would reset the connection, and the client could lose them.
pub async fn close(stream: &mut TcpStream, last: &[u8]) {
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
