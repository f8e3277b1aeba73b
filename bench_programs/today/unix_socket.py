# SPDX-License-Identifier: MIT
"""What the clients of measured and tested servers share."""

import socket
import sys
import time


def connect(path: str) -> socket.socket:
    """To a server that may still be starting."""
    for _ in range(200):
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(path)
            return connection
        except OSError:
            connection.close()
            time.sleep(0.05)
    sys.exit(f"{sys.argv[0]}: no server at {path}")
