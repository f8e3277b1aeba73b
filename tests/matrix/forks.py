# SPDX-License-Identifier: MIT
"""Pools of forked processes, forked while threads are busy too."""

import multiprocessing
import threading
import warnings

warnings.simplefilter("ignore")
stop = threading.Event()


def churn() -> None:
    while not stop.is_set():
        [bytes(size) for size in range(500)]


def work(number: int) -> int:
    table = {f"{number}:{index}": "x" * (index % 100) for index in range(3000)}
    return sum(len(key) + len(value) for key, value in table.items())


context = multiprocessing.get_context("fork")
threads = [threading.Thread(target=churn) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(4):
    with context.Pool(4, maxtasksperchild=5) as pool:
        print(sum(pool.map(work, range(40), chunksize=1)))
stop.set()
for thread in threads:
    thread.join()
