# SPDX-License-Identifier: MIT
"""redis's client: the same commands every time, a hundred in flight, then the server's shutdown.

redis_load.py SOCKET REQUESTS
"""

import random
import sys

from unix_socket import connect

BATCH = 100


def command(generator: random.Random) -> bytes:
    key = generator.randrange(20_000)
    value = "v" * generator.randrange(16, 400)
    words = generator.choice(
        [
            ["SET", f"text:{key}", value],
            ["GET", f"text:{key}"],
            ["LPUSH", f"list:{key % 500}", value],
            ["LRANGE", f"list:{key % 500}", "0", "20"],
            ["RPOP", f"list:{key % 500}"],
            ["HSET", f"hash:{key % 2000}", f"field:{key % 37}", value],
            ["ZADD", f"set:{key % 100}", str(key), f"member:{key}"],
            ["DEL", f"text:{key}"],
        ]
    )
    parts = [f"*{len(words)}\r\n"] + [f"${len(word)}\r\n{word}\r\n" for word in words]
    return "".join(parts).encode()


def main() -> None:
    path, requests = sys.argv[1], int(sys.argv[2])
    generator = random.Random(1992)
    connection = connect(path)
    for number in range(requests // BATCH):
        batch = b"".join(command(generator) for _ in range(BATCH))
        connection.sendall(batch + f"ECHO end{number}!\r\n".encode())
        tail = b""
        while not tail.endswith(f"end{number}!\r\n".encode()):
            data = connection.recv(1 << 20)
            if not data:
                sys.exit("redis_load.py: the server has gone")
            tail = (tail + data)[-40:]
    connection.sendall(b"SHUTDOWN NOSAVE\r\n")
    connection.recv(1)


if __name__ == "__main__":
    main()
