//! Sockets that a service manager has opened before it starts the proxy.

use larder_testkit::{Client, Larder, Origin, free_ports, site};

/// Opens sockets at the ports in the first argument and at the path in the second, as systemd does for a unit with a
/// `.socket`, and becomes the program after them.
const MANAGER: &str = "
import fcntl, os, socket, sys
ports, path, program = sys.argv[1].split(), sys.argv[2], sys.argv[3:]
listeners = [socket.create_server(('127.0.0.1', int(port))) for port in ports]
listeners.append(socket.socket(socket.AF_UNIX))
listeners[-1].bind(path)
listeners[-1].listen()
high = [fcntl.fcntl(listener, fcntl.F_DUPFD_CLOEXEC, 10) for listener in listeners]
for number, descriptor in enumerate(high):
    os.dup2(descriptor, 3 + number)
os.environ.update(LISTEN_FDS=str(len(listeners)), LISTEN_PID=str(os.getpid()))
os.execvp(program[0], program)
";

#[test]
fn sockets_that_a_service_manager_has_opened_are_used() {
    let origin = Origin::always("200 OK\n\nbody");
    let [known, unknown] = free_ports();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sock");
    let (ports, path_text) = (format!("{known} {unknown}"), path.display().to_string());
    let listen = format!("[reverse]\nlisten = ['127.0.0.1:{known}', 'unix:{path_text}']\n");
    // A socket that the proxy opened itself would fail: the address is in use.
    let mut larder = Larder::start_behind(
        &["python3", "-c", MANAGER, &ports, &path_text],
        &format!("{listen}{}", site(&[&origin], "")),
    );
    assert_eq!(larder.address().port(), known);
    for _ in 0..4 {
        assert_eq!(larder.get("/").body, b"body");
    }
    assert_eq!(Client::at(&path).ask("GET /").body, b"body");
    larder.wait_for_log(&format!(
        "the service manager has opened 127.0.0.1:{unknown}, which is no listener of the config"
    ));

    larder.upgrade(&[]).expect("an upgrade");
    larder.wait_for_predecessor();
    assert_eq!(Client::at(&path).ask("GET /").body, b"body");
    larder.stop();
    assert!(path.exists(), "the file belongs to the service manager");
}
