//! Tests of the choice of connections when the addresses of a name change.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::records::HostAddresses;
use super::resolve::Resolver;
use super::{Client, Common, Connector, OriginRequest, OutgoingHead};
use crate::base::settings::Timeouts;
use crate::http::body::Upload;

/// Responds to each request: with the status `first` on the first connection, with the next number on the second.
async fn serve(listener: TcpListener, first: u16) {
    let mut number = first - 1;
    while let Ok((mut stream, _)) = listener.accept().await {
        number += 1;
        tokio::spawn(async move {
            let mut request = [0; 1 << 10];
            while let Ok(1..) = stream.read(&mut request).await {
                let answer = format!("HTTP/1.1 {} OK\r\nContent-Length: 0\r\n\r\n", number);
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
    }
}

#[tokio::test]
async fn a_connection_to_an_address_that_left_dns_gets_no_request() {
    let [one, two] = ["127.0.0.1", "127.0.0.2"].map(|ip| ip.parse::<IpAddr>().unwrap());
    let first = TcpListener::bind((one, 0)).await.unwrap();
    let port = first.local_addr().unwrap().port();
    let second = TcpListener::bind(SocketAddr::new(two, port)).await.unwrap();
    tokio::spawn(serve(first, 211));
    tokio::spawn(serve(second, 221));
    let answers = Arc::new(Mutex::new(vec![one]));
    let given = Arc::clone(&answers);
    let common = Common::by(Resolver::by(move |_| {
        Ok(HostAddresses { addresses: given.lock().clone(), lifetime: None })
    }));
    common.watch(&["origin.test".to_owned()]);
    let connector = Connector::new(Duration::from_secs(20), false, &common);
    let client = Client::new(connector, &Timeouts::default(), &common);
    let authority = format!("origin.test:{port}");
    let ask = || async {
        let head = OutgoingHead::Http1(b"GET / HTTP/1.1\r\nHost: origin.test\r\n\r\n");
        let mut content = Upload::Empty;
        let mut request = OriginRequest::new(false, &authority, &Method::GET, &mut content);
        client.send(head, &mut request).await.unwrap().0.status.as_u16()
    };
    let resolved_to = async |found: &[IpAddr]| {
        *answers.lock() = found.to_vec();
        common.resolve_again("origin.test").await
    };
    resolved_to(&[one]).await.unwrap();
    assert_eq!([ask().await, ask().await], [211; 2], "a connection is kept");
    *answers.lock() = vec![two];
    assert_eq!(ask().await, 211, "the name has not been resolved again");
    resolved_to(&[two]).await.unwrap();
    assert_eq!([ask().await, ask().await], [221; 2]);
    resolved_to(&[one, two]).await.unwrap();
    assert_eq!(ask().await, 221, "its address is still among those found");
    resolved_to(&[one]).await.unwrap();
    assert_eq!(ask().await, 212, "the first connection to this address has been closed");
    assert!(resolved_to(&[]).await.is_err());
    assert_eq!(ask().await, 212, "without an answer, what was found before stays");
}
