# SPDX-License-Identifier: MIT
"""Threads that make and drop objects, and hand them to one another."""

import hashlib
import queue
import threading
import zlib

results: list[int] = [0] * 8
handed: "queue.Queue[bytes | None]" = queue.Queue(maxsize=50)


def work(number: int) -> None:
    total = 0
    for index in range(150):
        blob = bytes((index * number + k) % 256 for k in range(300)) * 20
        total += len(zlib.compress(blob)) + hashlib.sha256(blob).digest()[0]
        handed.put(blob)
    results[number] = total


def consume(sums: list[int]) -> None:
    while (blob := handed.get()) is not None:
        sums[0] += len(blob)


sums = [0]
consumer = threading.Thread(target=consume, args=(sums,))
workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in [consumer, *workers]:
    thread.start()
for thread in workers:
    thread.join()
handed.put(None)
consumer.join()
print(results, sums)
for _ in range(200):
    short_lived = threading.Thread(target=lambda: [str(number) for number in range(200)])
    short_lived.start()
    short_lived.join()
