"""An origin that streams: it sends a response chunk by chunk, and waits in the middle until told to go on."""

import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GO_ON = threading.Event()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/held":
            return self.stream()
        if self.path == "/go-on":
            GO_ON.set()
        self.whole(b"")

    def do_POST(self):
        """Sends back what was sent."""
        if self.headers.get("Transfer-Encoding") == "chunked":
            content = b"".join(iter(self.read_chunk, b""))
        else:
            content = self.rfile.read(int(self.headers["Content-Length"]))
        self.whole(content)

    def read_chunk(self):
        content = self.rfile.read(int(self.rfile.readline(), 16))
        self.rfile.readline()
        return content

    def whole(self, content):
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def stream(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Cache-Control", "max-age=3600")
        self.end_headers()
        self.write_chunk(b"begin\n")
        GO_ON.wait()
        for number in range(100):
            self.write_chunk(b"%d\n" % number * 100)
            time.sleep(0.002)
        self.write_chunk(b"")

    def write_chunk(self, content):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port)
sys.stdout.close()
server.serve_forever()
