# SPDX-License-Identifier: MIT
"""http_load.py PORT COUNT [PATH]: asks a server of this machine, four requests at a time, and
prints how many answers of each kind there were."""

import hashlib
import sys
import time
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from urllib.error import URLError


def main() -> None:
    port, count = int(sys.argv[1]), int(sys.argv[2])
    url = f"http://127.0.0.1:{port}" + (sys.argv[3] if len(sys.argv) > 3 else "/")
    for _ in range(300):
        try:
            urllib.request.urlopen(url, timeout=600).close()
            break
        except URLError:
            time.sleep(0.1)

    def ask(_: int) -> str:
        with urllib.request.urlopen(url, timeout=600) as reply:
            return f"{reply.status} {hashlib.sha256(reply.read()).hexdigest()}"

    with ThreadPoolExecutor(4) as pool:
        for kind, times in sorted(Counter(pool.map(ask, range(count))).items()):
            print(times, kind)


main()
