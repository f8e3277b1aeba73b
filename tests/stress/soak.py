# SPDX-License-Identifier: MIT
"""Servers under load for a long time, side by side: none fails, none grows, none is reported.

    /usr/bin/python3 tests/stress/soak.py [MINUTES] [-a SPEC]...    (20; run in the build directory)

redis under load, a node server and a python3 server, each under every SPEC; by default
gc:free=ignore, so that whatever their C code frees comes back by collection alone. Each minute the
resident size of every server is printed. A server fails when it ends, when an answer is wrong, when
the library says something of it before it is asked to end, or when its resident size in the second
half is more than half as large again as it was at most in the first: by then every policy of pacing
has reached its bound, and what grows on is lost memory.

Where SPEC has leaks=report each server is asked each minute for what it has leaked (`allotrope
leaks --json`), and the answer is printed. A server fails when it does not answer. It also fails
when a place leaks more and more: from each look of the second half to the next, the number of its
leaked blocks rises (direct and indirect ones), three times at least. What is still reachable is no
leak, so a cache is none. A cache that loses blocks while it is filled in the first half is no
growth, nor are blocks that are lost and found again. A leak that skips a minute is not seen so; the
printed lines and the resident size tell of it. A run of less than eight minutes has too few looks.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "analysis"))

from allotrope.features.leaks.measure import leaks_of  # noqa: E402
from allotrope.features.server.plan import free_port  # noqa: E402

BUILD = Path(os.environ.get("ALLOTROPE_BUILD_DIR", ".")).resolve()
LIBRARY = BUILD / ".libs" / "liballotrope.so"
DEFAULT = ["gc:free=ignore"]
LEAST_RISES = 3  # of a place's leaked blocks, in a row
PLACES_SHOWN = 5

NODE = """
const zlib = require('zlib');
process.on('SIGINT', () => process.exit(0));
require('http').createServer((request, response) => {
    const number = parseInt(request.url.slice(1));
    const packed = zlib.gzipSync(Buffer.alloc(20000, String(number)));
    response.end(String(zlib.gunzipSync(packed).length + number));
}).listen(Number(process.argv[1]), '127.0.0.1');
"""
PYTHON = """
import http.server, json, sys, zlib
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        number = int(self.path[1:])
        text = json.dumps([{"n": number, "t": "x" * (i % 700)} for i in range(300)])
        assert zlib.decompress(zlib.compress(text.encode())).decode() == text
        body = str(20000 + json.loads(text)[0]["n"]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
try:
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
except KeyboardInterrupt:
    pass
"""


Leaked = dict[str, tuple[int, int]]  # by place, blocks and bytes


def growing_places(looks: list[Leaked]) -> list[str]:
    """The places whose leaked blocks rise from each look of the second half to the next."""
    second = looks[len(looks) // 2 :]
    if len(second) <= LEAST_RISES:
        return []
    counts = {place: [look.get(place, (0, 0))[0] for look in second] for place in second[-1]}
    return [place for place, row in counts.items() if all(a < b for a, b in zip(row, row[1:]))]


def ask_for_leaks(pid: int, file: Path) -> Leaked:
    """Raises OSError or SubprocessError when there is no answer."""
    line = [sys.executable, "-I", str(SOURCE / "analysis"), "leaks", f"--json={file}", str(pid)]
    own = {"ALLOTROPE_BUILD_DIR": str(BUILD), "LC_ALL": "C.UTF-8"}
    subprocess.run(
        line,
        env=os.environ | own,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    leaked: Leaked = {}
    for leak in leaks_of(json.loads(file.read_text())):
        place = str(leak.site.allocates_at())
        before = leaked.get(place, (0, 0))
        leaked[place] = (before[0] + leak.both.blocks, before[1] + leak.both.bytes)
    return leaked


def in_words(leaked: Leaked) -> str:
    largest = sorted(leaked.items(), key=lambda one: -one[1][1])
    shown = [f"{blocks} of {size} B at {place}" for place, (blocks, size) in largest]
    more = [f"{len(shown) - PLACES_SHOWN} places more"] if len(shown) > PLACES_SHOWN else []
    return ", ".join(shown[:PLACES_SHOWN] + more) or "nothing"


@dataclass
class Server:
    name: str
    spec: str
    command: list[str]
    port: int
    statistics: Path
    said: Path  # standard error
    load: Callable[["Server"], None]
    process: "subprocess.Popen[bytes] | None" = None
    requests: int = 0
    faults: list[str] = field(default_factory=list)
    resident_mb: list[float] = field(default_factory=list)
    leaked: list[Leaked] = field(default_factory=list)  # at each look

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command,
            env=os.environ
            | {
                "LD_PRELOAD": str(LIBRARY),
                "ALLOTROPE": self.spec,
                "ALLOTROPE_STATS": str(self.statistics),
            },
            stdout=subprocess.DEVNULL,
            stderr=self.said.open("wb"),
            cwd=self.statistics.parent,
            # A shell's background job ignores it, and so would the server that is to end by it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def wait_until_it_listens(self) -> None:
        """On a machine with other work that may take a while."""
        for _ in range(1200):
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=60).close()
                return
            except OSError:
                time.sleep(0.1)
        self.faults.append("does not listen")

    def look(self) -> None:
        assert self.process
        if self.process.poll() is not None:
            self.faults.append(f"ended with status {self.process.returncode}")
            return
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        kilobytes = status.split("VmRSS:")[1].split()[0]
        self.resident_mb.append(int(kilobytes) / 1000)
        if "leaks=report" in self.spec:
            self.look_for_leaks(self.process.pid)

    def look_for_leaks(self, pid: int) -> None:
        try:
            self.leaked.append(ask_for_leaks(pid, self.statistics.with_suffix(".leaks")))
        except subprocess.CalledProcessError as fault:
            self.faults.append(f"is not asked for its leaks: {fault.stderr.strip()}")
        except (OSError, subprocess.TimeoutExpired) as fault:
            self.faults.append(f"does not tell its leaks: {fault}")
        else:
            print(f"{self.name} under {self.spec} leaks {in_words(self.leaked[-1])}", flush=True)

    def reports(self) -> list[str]:
        """What the library has said of it."""
        lines = self.said.read_text(errors="replace").splitlines()
        return [line for line in lines if line.startswith("allotrope")]

    def has_grown(self) -> bool:
        half = len(self.resident_mb) // 2
        first, second = self.resident_mb[:half], self.resident_mb[half:]
        return bool(first) and max(second) > 1.5 * max(first)


def load_http(server: Server) -> None:
    number = server.requests % 1000
    address = f"http://127.0.0.1:{server.port}/{number}"
    with urllib.request.urlopen(address, timeout=900) as answer:
        text = answer.read().decode()
    if text != str(20000 + number):
        server.faults.append(f"request {number}: wrong answer '{text}'")
    server.requests += 1


def load_redis(server: Server) -> None:
    words = ["redis-benchmark", "-q", "-p", str(server.port), "-n", "20000", "-r", "20000"]
    words += ["-d", "300", "-t", "set,get,lpush,lpop,sadd,hset,zadd,mset"]
    result = subprocess.run(words, capture_output=True, text=True, timeout=1800, check=False)
    trim = ["redis-cli", "-p", str(server.port), "del", "mylist"]
    subprocess.run(trim, capture_output=True, timeout=60, check=False)
    if result.returncode != 0 or "rror" in result.stdout:
        server.faults.append(f"redis-benchmark: {result.stdout[-200:]} {result.stderr[-200:]}")
    server.requests += 8 * 20000


def keep_busy(server: Server, until: float) -> None:
    while time.monotonic() < until and not server.faults:
        try:
            server.load(server)
        except (OSError, subprocess.TimeoutExpired) as fault:
            server.faults.append(f"no answer: {fault}")
        time.sleep(0.005)


def servers(folder: Path, specs: list[str]) -> list[Server]:
    return [one for number, spec in enumerate(specs) for one in servers_of(folder, spec, number)]


def servers_of(folder: Path, spec: str, number: int) -> list[Server]:
    ports = [free_port() for _ in range(3)]
    redis = ["redis-server", "--port", str(ports[0]), "--save", "", "--bind", "127.0.0.1"]
    commands = {
        "redis": (redis, load_redis),
        "node": (["node", "-e", NODE, str(ports[1])], load_http),
        "python3": (["/usr/bin/python3", "-c", PYTHON, str(ports[2])], load_http),
    }

    def file(name: str, ending: str) -> Path:
        return folder / f"{name}-{number}.{ending}"

    return [
        Server(name, spec, command, port, file(name, "json"), file(name, "said"), load)
        for (name, (command, load)), port in zip(commands.items(), ports)
    ]


def report(server: Server) -> None:
    text = f"{server.name} under {server.spec}: {server.requests} requests"
    if server.resident_mb:
        text += (
            f", {server.resident_mb[-1]:.0f} MB at the end, {max(server.resident_mb):.0f} at most"
        )
    if server.statistics.exists():
        figures = json.loads(server.statistics.read_text())
        if "gc" in figures:
            given_up = sum(figures["gc_given_up"].values())
            text += (
                f"; {figures['gc']['collections']} collections, {given_up} given up, longest pause"
                f" {figures['gc']['longest_pause_ns'] / 1e6:.0f} ms"
            )
    print(text + "".join(f"; FAULT: {fault}" for fault in server.faults), flush=True)


def soak(minutes: float, specs: list[str]) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        everyone = servers(Path(folder), specs)
        for server in everyone:
            server.start()
        try:
            for server in everyone:
                server.wait_until_it_listens()
            until = time.monotonic() + 60 * minutes
            threads = [threading.Thread(target=keep_busy, args=(one, until)) for one in everyone]
            for thread in threads:
                thread.start()
            while time.monotonic() < until and not any(server.faults for server in everyone):
                time.sleep(min(60.0, max(0.0, until - time.monotonic())))
                for server in everyone:
                    server.look()
                sizes = "  ".join(f"{one.name} {one.resident_mb[-1:]} MB" for one in everyone)
                print(f"{sizes}  requests {[one.requests for one in everyone]}", flush=True)
            for thread in threads:
                thread.join()
            for server in everyone:
                server.faults += server.reports()
        finally:
            for server in everyone:
                if server.process and server.process.poll() is None:
                    server.process.send_signal(signal.SIGINT)
                    try:
                        server.process.wait(timeout=60)
                    except subprocess.TimeoutExpired:
                        server.faults.append("does not end when it is asked to")
                        server.process.kill()
        for server in everyone:
            if server.has_grown():
                server.faults.append(f"grew: {server.resident_mb}")
            for place in growing_places(server.leaked):
                rows = [look.get(place, (0, 0)) for look in server.leaked]
                server.faults.append(f"leaks more and more at {place}: {rows}")
            report(server)
        return not any(server.faults for server in everyone)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("minutes", type=float, nargs="?", default=20.0)
    parser.add_argument("-a", "--allocator", action="append", metavar="SPEC")
    asked = parser.parse_args()
    sys.exit(0 if soak(asked.minutes, asked.allocator or DEFAULT) else 1)


if __name__ == "__main__":
    main()
