"""A gRPC server and client for tests, with the stock library and no generated code.

server [CERT KEY]      listens on a free port, and prints it
client ADDRESS [CA]    calls every kind of method through ADDRESS, and prints what it gets
"""

import concurrent.futures
import queue
import sys

import grpc


def say(request, context):
    context.send_initial_metadata((("x-first", "1"),))
    context.set_trailing_metadata((("x-last", "2"), ("x-data-bin", b"\x00\xff")))
    return request[::-1]


def fail(request, context):
    context.set_trailing_metadata((("x-last", "3"),))
    context.abort(grpc.StatusCode.NOT_FOUND, "no such thing: 100% \u00fc")


def count(request, context):
    for number in range(int(request)):
        yield b"%d" % number


def spoil(request, context):
    yield b"one"
    yield b"two"
    context.set_trailing_metadata((("x-last", "4"),))
    context.abort(grpc.StatusCode.DATA_LOSS, "the third is lost")


def add(requests, context):
    return b"%d" % sum(int(request) for request in requests)


def chat(requests, context):
    yield b"welcome"
    for request in requests:
        yield b"you said " + request


def wait(request, context):
    context.add_callback(lambda: ended.put(context.is_active()))
    yield b"waiting"
    forever.get()


def ended_calls(request, context):
    return b"ended" if not ended.get(timeout=20) else b"active"


ended, forever = queue.Queue(), queue.Queue()

METHODS = {
    "Say": grpc.unary_unary_rpc_method_handler(say),
    "Fail": grpc.unary_unary_rpc_method_handler(fail),
    "Count": grpc.unary_stream_rpc_method_handler(count),
    "Spoil": grpc.unary_stream_rpc_method_handler(spoil),
    "Add": grpc.stream_unary_rpc_method_handler(add),
    "Chat": grpc.stream_stream_rpc_method_handler(chat),
    "Wait": grpc.unary_stream_rpc_method_handler(wait),
    "Ended": grpc.unary_unary_rpc_method_handler(ended_calls),
}


def server(arguments):
    made = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=8))
    made.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", METHODS),))
    if arguments:
        cert, key = (open(name, "rb").read() for name in arguments)
        port = made.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials(((key, cert),)))
    else:
        port = made.add_insecure_port("127.0.0.1:0")
    made.start()
    print(port, flush=True)
    sys.stdin.read()
    made.stop(0)


def metadata(pairs):
    return sorted((key, value) for key, value in pairs if key.startswith("x-"))


def client(address, ca=None):
    if ca:
        credentials = grpc.ssl_channel_credentials(open(ca, "rb").read())
        channel = grpc.secure_channel(address, credentials)
    else:
        channel = grpc.insecure_channel(address)
    name = "/test.Echo/"
    answer, call = channel.unary_unary(name + "Say").with_call(b"hello", timeout=20)
    print("say:", answer, metadata(call.initial_metadata()), metadata(call.trailing_metadata()))
    large = bytes(range(256)) * 8000
    print("large:", channel.unary_unary(name + "Say")(large, timeout=20) == large[::-1])
    try:
        channel.unary_unary(name + "Fail")(b"", timeout=20)
    except grpc.RpcError as error:
        print("fail:", error.code().name, error.details(), metadata(error.trailing_metadata()))
    print("count:", b" ".join(channel.unary_stream(name + "Count")(b"5", timeout=20)))
    spoiled = channel.unary_stream(name + "Spoil")(b"", timeout=20)
    try:
        for message in spoiled:
            print("spoil:", message)
    except grpc.RpcError as error:
        print("spoil:", error.code().name, error.details(), metadata(error.trailing_metadata()))
    numbers = (b"%d" % number for number in range(1000))
    print("add:", channel.stream_unary(name + "Add")(numbers, timeout=20))
    said = queue.Queue()
    heard = channel.stream_stream(name + "Chat")(iter(said.get, None), timeout=20)
    # The server speaks before the client has said anything.
    print("chat:", next(heard), end=" ")
    for word in (b"a", b"b"):
        said.put(word)
        print(next(heard), end=" ")
    said.put(None)
    print(list(heard))
    waiting = channel.unary_stream(name + "Wait")(b"", timeout=20)
    next(waiting)
    waiting.cancel()
    print("cancel:", channel.unary_unary(name + "Ended")(b"", timeout=20))
    try:
        list(channel.unary_stream(name + "Wait")(b"", timeout=0.3))
    except grpc.RpcError as error:
        print("deadline:", error.code().name)
    try:
        channel.unary_unary("/test.Other/Say")(b"", timeout=20)
    except grpc.RpcError as error:
        print("unknown:", error.code().name)


{"server": lambda *arguments: server(arguments), "client": client}[sys.argv[1]](*sys.argv[2:])
