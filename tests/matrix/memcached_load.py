# SPDX-License-Identifier: MIT
"""Several clients that set, get, append to and delete keys of a memcached on a socket."""

import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench_programs" / "today"))

from unix_socket import connect  # noqa: E402


def run(path: str, number: int, results: list[int]) -> None:
    client = connect(path)
    stream = client.makefile("rwb")

    def ask(line: str, data: bytes | None = None) -> bytes:
        stream.write(line.encode() + b"\r\n" + (b"" if data is None else data + b"\r\n"))
        stream.flush()
        return stream.readline()

    for index in range(800):
        key, value = f"k{number}:{index % 200}", bytes([97 + index % 26]) * (index * 37 % 4000)
        assert ask(f"set {key} 0 0 {len(value)}", value) == b"STORED\r\n"
        assert ask(f"append {key} 0 0 3", b"end") == b"STORED\r\n"
        header = ask(f"get {key}")
        results[number] += int(header.split()[3])
        assert stream.readline() == value + b"end\r\n"
        assert stream.readline() == b"END\r\n"
        if index % 3 == 0:
            assert ask(f"delete {key}") == b"DELETED\r\n"
    client.close()


found = [0] * 6
clients = [threading.Thread(target=run, args=(sys.argv[1], number, found)) for number in range(6)]
for client_thread in clients:
    client_thread.start()
for client_thread in clients:
    client_thread.join()
print(found)
