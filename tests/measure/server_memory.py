# SPDX-License-Identifier: MIT
"""Resident memory of redis, node and python3 servers over an hour of changing load, under glibc,
blocks and the peers that are installed, all at the same time.

    /usr/bin/python3 tests/measure/server_memory.py [MINUTES] [-a SPEC]... [--server NAME]...

Each server keeps a store of documents of 20 bytes to 60 KB, most of them small. A request adds 100
and drops the oldest beyond what the hour of the day keeps, which goes from 1,000 to 60,000 and back
in ten minutes (PHASES); so do the requests a second. All servers of a kind get the same requests,
drawn from one seed, at the same moments. VmRSS is read each second; what is printed are its
average over the run, its maximum and what it is in the last, quiet phase, in MB, and the average
to glibc's.

No times are measured, so other light work on the machine does no harm, as long as no request is
late by more than a phase: the latest is printed.
"""

import argparse
import contextlib
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Iterator

SOURCE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / name) for name in ("tests", "analysis")]
os.environ.setdefault("ALLOTROPE_BUILD_DIR", os.getcwd())

from allotrope.features.server.plan import free_port  # noqa: E402
from under import PYTHON  # noqa: E402

ADDED = 100  # documents by a request
# What is kept, and requests a second, for a sixth of CYCLE seconds each.
PHASES = ((1000, 1.0), (20000, 10.0), (60000, 20.0), (20000, 10.0), (5000, 4.0), (1000, 0.5))
CYCLE = 600.0
ALLOCATORS = ("glibc", "blocks", "jemalloc", "mimalloc", "tcmalloc")

SERVE_PYTHON = """
import collections, http.server, json, random, sys
store = collections.OrderedDict()
def step(seed, kept):
    drawn = random.Random(seed)
    for number in range(100):
        size = min(int(20 * drawn.paretovariate(0.9)), 60000)
        text = json.dumps({"id": seed * 100 + number, "tags": ["t%d" % (size % 97)] * 3,
                           "body": "x" * size})
        store[seed * 100 + number] = json.loads(text)
    while len(store) > kept:
        store.popitem(last=False)
    return len(store)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        _, seed, kept = self.path.split("/")
        body = str(step(int(seed), int(kept))).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
SERVE_NODE = """
let state = 1;
function draw() {  // xorshift
    state ^= state << 13; state ^= state >>> 17; state ^= state << 5;
    return (state >>> 0) / 4294967296;
}
const store = new Map();
require('http').createServer((request, response) => {
    const [, seed, kept] = request.url.split('/').map(Number);
    state = seed * 2654435761 | 1;
    for (let i = 0; i < 8; i++) draw();
    for (let number = 0; number < 100; number++) {
        const size = Math.min(Math.floor(20 * Math.pow(1 - draw(), -1 / 0.9)), 60000);
        const text = JSON.stringify({id: number, body: 'x'.repeat(size)});
        store.set(seed * 100 + number, Buffer.from(Buffer.alloc(text.length + 64, text)));
    }
    for (const key of store.keys()) {
        if (store.size <= kept) break;
        store.delete(key);
    }
    response.end(String(store.size));
}).listen(Number(process.argv[1]), '127.0.0.1');
"""


@dataclass
class Server:
    kind: str
    spec: str
    command: list[str]
    port: int
    process: "subprocess.Popen[bytes] | None" = None
    pid: int = 0
    resident_mb: list[float] = field(default_factory=list)
    at_last: list[float] = field(default_factory=list)
    late: float = 0.0
    fault: str = ""

    def start(self) -> None:
        environment = dict(os.environ, PYTHONMALLOC="malloc", PYTHONHASHSEED="0")
        line = [PYTHON, "-I", str(SOURCE / "analysis"), "run", "-a", self.spec, "--"]
        self.process = subprocess.Popen(
            [*line, *self.command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                self.pid = server_below(self.process.pid, self.command[0])
                return
            time.sleep(0.1)
        sys.exit(f"server_memory: {self.kind} under {self.spec} does not listen")

    def look(self) -> None:
        status = Path(f"/proc/{self.pid}/status").read_text()
        self.resident_mb.append(int(status.split("VmRSS:")[1].split()[0]) * 1024 / 1e6)

    def end(self) -> None:
        if self.process and self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, 15)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=30)


def server_below(process: int, program: str) -> int:
    """The process that runs the program, somewhere below."""
    tasks = Path(f"/proc/{process}/task").iterdir()
    children = [int(one) for task in tasks for one in (task / "children").read_text().split()]
    name = os.path.basename(program)[:15]
    if Path(f"/proc/{process}/comm").read_text().strip().startswith(name):
        return process
    for child in children:
        with contextlib.suppress(LookupError, OSError):
            return server_below(child, program)
    raise LookupError(program)


def ask_http(port: int, number: int, kept: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=600) as one:
        one.sendall(f"GET /{number}/{kept} HTTP/1.0\r\n\r\n".encode())
        answer = b""
        while some := one.recv(4096):
            answer += some
    size = int(answer.rpartition(b"\r\n\r\n")[2])
    assert size <= max(kept, ADDED), answer


class Redis:
    """One connection; what is there is known here."""

    def __init__(self) -> None:
        self.keys: list[int] = []

    def ask(self, port: int, number: int, kept: int) -> None:
        drawn = random.Random(number)
        commands = []
        for one in range(ADDED):
            size = min(int(20 * drawn.paretovariate(0.9)), 60000)
            commands.append([b"SET", b"%d" % (number * ADDED + one), b"x" * size])
            self.keys.append(number * ADDED + one)
        gone, self.keys = self.keys[:-kept], self.keys[-kept:]
        commands += [[b"DEL", b"%d" % key] for key in gone]
        sent = b"".join(
            b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)
            for words in commands
        )
        with socket.create_connection(("127.0.0.1", port), timeout=600) as one:
            writer = threading.Thread(target=one.sendall, args=(sent,))
            writer.start()
            lines = 0
            while lines < len(commands):
                some = one.recv(65536)
                assert some and b"-ERR" not in some
                lines += some.count(b"\r\n")
            writer.join()


def phase_at(seconds: float) -> tuple[int, float]:
    return PHASES[int(seconds % CYCLE / (CYCLE / len(PHASES)))]


def requests(minutes: float) -> Iterator[tuple[float, int, int]]:
    """When, which number, and how many documents are kept then."""
    at, number = 0.0, 1
    while at < minutes * 60:
        kept, rate = phase_at(at)
        yield at, number, kept
        at, number = at + 1 / rate, number + 1


def load(server: Server, begun: float, minutes: float) -> None:
    ask: Callable[[int, int, int], None] = ask_http
    if server.kind == "redis":
        ask = Redis().ask
    for at, number, kept in requests(minutes):
        wait = begun + at - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        server.late = max(server.late, -wait)
        try:
            ask(server.port, number, kept)
        except (OSError, AssertionError, ValueError) as error:
            server.fault = f"request {number}: {error!r}"
            return


def command_of(kind: str, port: int) -> list[str]:
    if kind == "redis":
        own = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        return ["redis-server", *own, "--activedefrag", "no"]
    if kind == "node":
        return ["node", "-e", SERVE_NODE, str(port)]
    return ["/usr/bin/python3", "-c", SERVE_PYTHON, str(port)]


def run(servers: list[Server], minutes: float) -> None:
    for server in servers:
        server.start()
    begun = time.monotonic()
    loads = [threading.Thread(target=load, args=(one, begun, minutes)) for one in servers]
    for one in loads:
        one.start()
    while (now := time.monotonic() - begun) < minutes * 60:
        for server in servers:
            server.look()
            if phase_at(now) == PHASES[-1]:
                server.at_last.append(server.resident_mb[-1])
        time.sleep(1)
    for one in loads:
        one.join()


def show(servers: list[Server]) -> None:
    print(
        "| server | allocator | average MB | to glibc's | maximum | in the last phase | late, s |"
    )
    print("|---|---|--:|--:|--:|--:|--:|")
    average = {(one.kind, one.spec): sum(one.resident_mb) / len(one.resident_mb) for one in servers}
    for one in servers:
        mean, base = average[one.kind, one.spec], average.get((one.kind, "glibc"), float("nan"))
        quiet = sum(one.at_last) / max(1, len(one.at_last))
        print(
            f"| {one.kind} | {one.spec} | {mean:.1f} | {mean / base:.3f} | "
            f"{max(one.resident_mb):.1f} | {quiet:.1f} | {one.late:.1f} |"
            + (f" FAULT: {one.fault}" if one.fault else "")
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("minutes", type=float, nargs="?", default=60.0)
    parser.add_argument("-a", "--allocator", action="append", metavar="SPEC")
    parser.add_argument("--server", action="append", choices=("redis", "node", "python3"))
    asked = parser.parse_args()
    kinds, specs = asked.server or ("redis", "node", "python3"), asked.allocator or ALLOCATORS
    servers = [
        Server(kind, spec, command_of(kind, port), port)
        for kind in kinds
        for spec in specs
        for port in (free_port(),)
    ]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            run(servers, asked.minutes)
        finally:
            for server in servers:
                server.end()
    show(servers)
    return 1 if any(server.fault for server in servers) else 0


if __name__ == "__main__":
    sys.exit(main())
