#!/opt/crawlstream/bin/python -IS
"""Whether the process of this container does its work: exits 0 if ``/health`` says it lives.

A plain socket and no imports to speak of, because it runs every few seconds beside a crawler.
``crawlstream-health ready`` asks whether it is of use, too.
"""

import os
import socket
import sys

port = int(os.environ.get("CRAWLSTREAM_METRICS_PORT") or 0) + int(
    os.environ.get("CRAWLSTREAM_METRICS_OFFSET") or 0
)
path = "/health/ready" if sys.argv[1:] == ["ready"] else "/health"
try:
    with socket.create_connection(("127.0.0.1", port), 4) as connection:
        connection.settimeout(4)
        connection.sendall(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        status = connection.recv(64).split(b" ", 2)[1:2]
except OSError as error:
    sys.exit(f"no answer on port {port}: {error}")
sys.exit(0 if status == [b"200"] else f"{path} answers {status[0].decode() if status else None}")
