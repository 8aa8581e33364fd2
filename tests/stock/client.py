"""A client made by Thrift's compiler.

python3 client.py PORT get URL FILE     saves the page and prints its length, or prints why there is none
python3 client.py PORT many URL COUNT   as many calls at once, each on a connection of its own
python3 client.py PORT statistics       prints requests, hits, misses and policy; then resets them

PORT,FILE instead of PORT: over TLS, trusting the certificate in the file
"""

import ssl
import sys
import threading

from thrift.protocol import TBinaryProtocol
from thrift.transport import TSocket, TSSLSocket, TTransport

from larder import Larder
from larder.ttypes import FetchFailed

LIMIT = 64 << 20


def connect(port):
    port, _, authority = port.partition(",")
    if authority:
        socket = TSSLSocket.TSSLSocket("127.0.0.1", int(port), cert_reqs=ssl.CERT_REQUIRED, ca_certs=authority)
    else:
        socket = TSocket.TSocket("127.0.0.1", int(port))
    transport = TTransport.TBufferedTransport(socket)
    transport.open()
    return Larder.Client(TBinaryProtocol.TBinaryProtocol(transport, string_length_limit=LIMIT))


def get(port, url, file):
    try:
        page = connect(port).get_data(url)
    except FetchFailed as failed:
        print("failed", failed.status, failed.why)
        return
    with open(file, "wb") as out:
        out.write(page)
    print("page of", len(page))


def many(port, url, count):
    barrier = threading.Barrier(int(count))
    lengths = []

    def call():
        client = connect(port)
        barrier.wait()
        lengths.append(len(client.get_data(url)))

    calls = [threading.Thread(target=call) for _ in range(int(count))]
    for thread in calls:
        thread.start()
    for thread in calls:
        thread.join()
    print(len(lengths), "pages of", *sorted(set(lengths)))


def statistics(port):
    client = connect(port)
    found = client.print_statistics()
    print(found.requests, found.hits, found.misses, found.policy)
    client.reset_statistics()
    print("then", client.print_statistics().requests)


{"get": get, "many": many, "statistics": statistics}[sys.argv[2]](sys.argv[1], *sys.argv[3:])
