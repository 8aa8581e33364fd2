//! Forged datagrams: the proxy does not amplify traffic to their source.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use larder_rpc::{Call, ClientProtocol, Limits, onc};
use larder_testkit::{Client, Larder, OUTER, Origin, PATIENCE, with_outer_address};

/// Returns a socket at `ip` that has sent `count` calls to `door`.
fn calling(ip: IpAddr, door: SocketAddr, call: &Call, count: usize) -> UdpSocket {
    let socket = UdpSocket::bind((ip, 0)).expect("a port");
    socket.connect(door).expect("an address");
    socket.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let message = onc::Client::new(9, Limits::default()).encode(call).expect("a call");
    for _ in 0..count {
        let _ = socket.send(&message[4..]);
    }
    socket
}

fn answer(socket: &UdpSocket) -> Result<usize, ErrorKind> {
    socket.recv(&mut vec![0; 64 << 10]).map_err(|error| error.kind())
}

#[test]
fn onc_over_udp_is_off_beyond_loopback() {
    with_outer_address("datagrams::no_udp_beyond_loopback");
}

#[test]
#[ignore = "in a network namespace only"]
fn no_udp_beyond_loopback() {
    let larder = Larder::start(&format!("[onc]\nlisten = ['{}', '127.0.0.1:0']", SocketAddr::new(OUTER, 0)));
    let door = larder.door("onc");
    assert_eq!(door.ip(), OUTER);
    drop(Client::to(door));
    assert_eq!(answer(&calling(OUTER, door, &Call::Ping, 1)), Err(ErrorKind::ConnectionRefused));
}

#[test]
fn onc_over_udp_answers_listed_clients_only() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nbody");
    let config =
        "[forward]\nallow_private = true\n[doors]\nclients = ['127.0.0.2']\n[onc]\nlisten = '127.0.0.1:0'";
    let larder = Larder::start(config);
    let call = Call::Fetch { url: origin.url() };
    let forged = calling([127, 0, 0, 1].into(), larder.door("onc"), &call, 9);
    let listed = calling([127, 0, 0, 2].into(), larder.door("onc"), &call, 1);
    assert!(answer(&listed).is_ok());
    assert_eq!(larder.stats()["doors"]["onc"]["requests"], 1);
    drop(forged);
}

#[test]
fn one_address_gets_few_answers_over_udp_in_a_second() {
    with_outer_address("datagrams::few_answers_in_a_second");
}

#[test]
#[ignore = "in a network namespace only"]
fn few_answers_in_a_second() {
    let at = SocketAddr::new(OUTER, 0);
    let larder = Larder::start(&format!(
        "[onc]\nlisten = '{at}'\nudp = true\nudp_rate = 1\n[doors]\nclients = ['{OUTER}']"
    ));
    let socket = calling(OUTER, larder.door("onc"), &Call::Ping, 200);
    assert!(answer(&socket).is_ok());
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a limit");
    let more = std::iter::from_fn(|| answer(&socket).ok()).count();
    assert!(more <= 20, "{more} answers to 200 calls");
}
