# ruff: noqa: INP001  a script, not a package
"""Serves ``crawlstream_entries`` as an external metric of Kubernetes: ``metrics.py SERVICE``.

For docker/kubernetes/try.sh alone. The autoscaler's question is answered with the largest value
that a process behind the headless service SERVICE has, as docs/deploying.md asks of an adapter.
"""

import json
import re
import socket
import ssl
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl
from urllib.request import urlopen

METRIC = "crawlstream_entries"
GROUP = "external.metrics.k8s.io/v1beta1"
TIMEOUT_S = 2


def read_metric(service: str, labels: dict[str, str]) -> list[float]:
    """The metric's value at each process that has one with these labels."""
    values = []
    addresses = {str(found[4][0]) for found in socket.getaddrinfo(service, 9100, socket.AF_INET)}
    for address in addresses:
        try:
            with urlopen(f"http://{address}:9100/metrics", timeout=TIMEOUT_S) as answer:
                text = answer.read().decode()
        except OSError:
            continue
        for has, value in re.findall(rf"^{METRIC}{{(.*)}} (\S+)$", text, re.MULTILINE):
            if labels.items() <= dict(re.findall(r'(\w+)="([^"]*)"', has)).items():
                values.append(float(value))
    return values


class Handler(BaseHTTPRequestHandler):
    """Answers the discovery of the group, and the question for the metric."""

    def do_GET(self) -> None:
        """Answer one request."""
        path, _, query = self.path.partition("?")
        if path == f"/apis/{GROUP}":
            self._answer(200, discovery())
        elif path.startswith(f"/apis/{GROUP}/") and path.endswith(f"/{METRIC}"):
            selector = dict(parse_qsl(query)).get("labelSelector", "")
            labels = dict(each.split("=", 1) for each in selector.split(",") if each)
            self._answer(200, metric_values(labels))
        else:
            self._answer(404, {"kind": "Status", "apiVersion": "v1", "code": 404})

    def _answer(self, status: int, body: object) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def discovery() -> dict[str, object]:
    """The group's one resource."""
    kind = {"name": METRIC, "namespaced": True, "kind": "ExternalMetricValueList", "verbs": ["get"]}
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": GROUP,
        "resources": [kind],
    }


def metric_values(labels: dict[str, str]) -> dict[str, object]:
    """The metric as a list of one, or of none if no process has it."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    values = read_metric(sys.argv[1], labels)
    items = [
        {"metricName": METRIC, "metricLabels": labels, "timestamp": now, "value": str(int(value))}
        for value in sorted(values)[-1:]
    ]
    return {
        "kind": "ExternalMetricValueList",
        "apiVersion": GROUP,
        "metadata": {},
        "items": items,
    }


def main() -> None:
    """Serve until it is ended."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path("/tls/tls.crt"), Path("/tls/tls.key"))
    server = ThreadingHTTPServer(("0.0.0.0", 6443), Handler)  # noqa: S104  within its pod
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
