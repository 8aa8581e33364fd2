"""A client with the TLS library tlslite-ng, which sends records that common clients do not send.

PORT VERSION    connects to PORT of this machine with TLS 1.2 or 1.3 for each case, and prints its outcome
"""

import socket
import sys

from tlslite.api import HandshakeSettings, TLSConnection
from tlslite.constants import AlertDescription, AlertLevel, CipherSuite, ContentType, KeyUpdateMessageType
from tlslite.errors import TLSAbruptCloseError, TLSRemoteAlert
from tlslite.messages import Alert, ClientHello, Finished, KeyUpdate, Message

PORT, VERSION = int(sys.argv[1]), {"1.2": (3, 3), "1.3": (3, 4)}[sys.argv[2]]

# The longest content of a record, and the most bytes that encryption adds to it.
MOST, ADDED = 1 << 14, {(3, 3): 2048, (3, 4): 256}[VERSION]


def connect():
    settings = HandshakeSettings()
    settings.minVersion = settings.maxVersion = VERSION
    tls = TLSConnection(socket.create_connection(("127.0.0.1", PORT), timeout=60))
    tls.handshakeClientCert(serverName="localhost", settings=settings)
    return tls


def get(path, version="1.1", fields=""):
    return f"GET {path} HTTP/{version}\r\nHost: localhost\r\n{fields}\r\n".encode()


def send(tls, *messages):
    """Sends each message in one record, of any length. A server that has ended the connection stops reading."""
    try:
        for message in messages:
            for _ in tls._recordLayer.sendRecord(message):
                pass
    except ConnectionError:
        pass


def content(text):
    return Message(ContentType.application_data, bytearray(text))


def short(response):
    """Returns the status and the content of a response."""
    head, text = response.decode().split("\r\n\r\n", 1)
    return f"{head.split()[1]} {text.strip()}"


def answer(tls, end):
    """Returns a response whose content ends with `end`."""
    said = b""
    while not said.endswith(end):
        part = tls.read()
        assert part, f"the connection ended after {said}"
        said += part
    return short(said)


def ended(tls):
    """Reads to the end of the connection; returns the response, if any, and the alert at the end."""
    said = b""
    try:
        while part := tls.read():
            said += part
        end = "close_notify"
    except TLSRemoteAlert as alert:
        warning = "warning " if alert.level == AlertLevel.warning else ""
        end = warning + AlertDescription.toStr(alert.description)
    except (TLSAbruptCloseError, ConnectionResetError):
        end = "no alert"
    return f"{short(said)}, {end}" if said else end


def refused(*messages):
    """Sends messages, and then a request, which must not have an answer if the messages are errors."""
    tls = connect()
    send(tls, *messages, content(get("/refused", fields="Connection: close\r\n")))
    return ended(tls)


def finished(change):
    """Returns the alert after a handshake whose last message, Finished, has what `change` makes of its content."""
    create = Finished.create
    Finished.create = lambda message, content: create(message, change(content))
    try:
        return ended(connect())
    except TLSRemoteAlert as alert:
        return AlertDescription.toStr(alert.description)
    finally:
        Finished.create = create


def keys():
    """Returns whether the server has new keys after each update, the second of which does not request any."""
    tls, kinds, said = connect(), KeyUpdateMessageType, []
    tls.write(get("/keys"))
    assert answer(tls, b"/keys") == "200 /keys"
    for kind in (kinds.update_requested, kinds.update_not_requested, kinds.update_requested):
        before = bytes(tls.session.sr_app_secret)
        for _ in tls.send_keyupdate_request(kind):
            pass
        tls.write(get("/keys"))
        assert answer(tls, b"/keys") == "200 /keys"
        said.append("no" if tls.session.sr_app_secret == before else "yes")
    return " ".join(said)


def parts():
    """Replaces the client's key with a message in two records."""
    tls = connect()
    session, message = tls.session, KeyUpdate().create(KeyUpdateMessageType.update_not_requested).write()
    send(tls, *(Message(ContentType.handshake, part) for part in (message[:2], message[2:])))
    session.cl_app_secret, session.sr_app_secret = tls._recordLayer.calcTLS1_3KeyUpdate_reciever(
        session.cipherSuite, session.cl_app_secret, session.sr_app_secret
    )
    tls.write(get("/keys"))
    return answer(tls, b"/keys")


def empty():
    tls = connect()
    request = get("/empty")
    for piece in (b"", b"", request[:9], b"", request[9:], b""):
        tls.write(piece)
    return answer(tls, b"/empty")


def upload(path, fields, body, is_told):
    """Sends `body` and then the end of the connection: close_notify, or only the end of the stream."""
    tls = connect()
    tls.write(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n\r\n{body}".encode())
    if is_told:
        send(tls, Alert().create(AlertDescription.close_notify, AlertLevel.warning))
    else:
        tls.sock.shutdown(socket.SHUT_WR)
    return ended(tls)


def download(path):
    tls = connect()
    tls.write(get(path, "1.0"))
    return ended(tls)


HELLO = ClientHello().create((3, 3), bytearray(32), bytearray(), [CipherSuite.TLS_AES_128_GCM_SHA256])
FAILURE = Alert().create(AlertDescription.handshake_failure, AlertLevel.fatal)
WARNING = Alert().create(AlertDescription.unsupported_certificate, AlertLevel.warning)
LENGTH, CHUNKED = "Content-Length: 10", "Transfer-Encoding: chunked"

print("short end of a handshake:", finished(lambda content: content[:-1]))
print("long end:", finished(lambda content: content + b"a"))
print("empty end:", finished(lambda content: content[:0]))
print("wrong end:", finished(lambda content: bytearray(len(content))))
print("new keys:", keys() if VERSION == (3, 4) else "none")
print("key in parts:", parts() if VERSION == (3, 4) else "none")
print("empty records:", empty())
print("many of them:", refused(*(content(b"") for _ in range(40))))
print("long record:", refused(content(b"a" * (MOST + 1))))
print("longer header:", refused(content(b"a" * (MOST + ADDED + 1))))
print("hello:", refused(HELLO))
print("part of it:", refused(Message(ContentType.handshake, HELLO.write()[:9])))
print("failure:", refused(FAILURE))
print("warning:", refused(WARNING))
print("short alert:", refused(Message(ContentType.alert, bytearray([1]))))
print("long alert:", refused(Message(ContentType.alert, bytearray([1, 0, 0]))))
for is_told in (False, True):
    print("half by length:", upload("/half", LENGTH, "12345", is_told))
    print("half in chunks:", upload("/half", CHUNKED, "5\r\n12345\r\n", is_told))
    print("whole by length:", upload("/whole", LENGTH, "1234567890", is_told))
    print("whole in chunks:", upload("/whole", CHUNKED, "5\r\n12345\r\n0\r\n\r\n", is_told))
print("without length:", download("/chunked"))
print("broken off:", download("/broken"))
