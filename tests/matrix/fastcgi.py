# SPDX-License-Identifier: MIT
"""fastcgi.py PORT SCRIPT COUNT: asks a FastCGI server of this machine for a script, and prints each
answer that differs from the one before."""

import socket
import struct
import sys
import time

BEGIN, PARAMS, STDIN, STDOUT = 1, 4, 5, 6


def record(kind: int, content: bytes) -> bytes:
    return struct.pack(">BBHHBB", 1, kind, 1, len(content), 0, 0) + content


def connection(port: int) -> socket.socket:
    for _ in range(300):
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=600)
        except ConnectionRefusedError:
            time.sleep(0.1)
    raise ConnectionRefusedError("the server does not come up")


def answer(port: int, script: str) -> bytes:
    variables = {"SCRIPT_FILENAME": script, "REQUEST_METHOD": "GET"}
    parameters = b"".join(
        bytes([len(name), len(value)]) + name.encode() + value.encode()
        for name, value in variables.items()
    )
    request = record(BEGIN, struct.pack(">HB5x", 1, 0)) + record(PARAMS, parameters)
    with connection(port) as server:
        server.sendall(request + record(PARAMS, b"") + record(STDIN, b""))
        reply = b"".join(iter(lambda: server.recv(65536), b""))
    output = b""
    while len(reply) >= 8:
        _, kind, _, length, padding, _ = struct.unpack(">BBHHBB", reply[:8])
        if kind == STDOUT:
            output += reply[8 : 8 + length]
        reply = reply[8 + length + padding :]
    return output.partition(b"\r\n\r\n")[2]


def main() -> None:
    port, script, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    last = b""
    for _ in range(count):
        found = answer(port, script)
        if found != last:
            print(found.decode())
        last = found


main()
