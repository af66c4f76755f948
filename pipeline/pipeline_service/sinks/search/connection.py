"""Connection to a server with the API of OpenSearch and Elasticsearch."""

from __future__ import annotations

import base64
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlencode

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError
from urllib3.util import Url, parse_url

from crawlstream import __version__
from crawlstream.errors import ConfigError
from crawlstream.plugins.sinks import SinkUnavailable
from crawlstream.wire import jsontext

TIMEOUT_S = 20.0
"""Seconds without any byte; less than a call of a store may take."""
_PORT = 9200
_LONGEST = 500
"""Characters of a reason in a message."""


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """Status and JSON of a response."""

    status: int
    body: Mapping[str, Any]

    @property
    def error(self) -> str:
        """Type of the error, such as ``index_not_found_exception``; empty: it has none."""
        error = self.body.get("error")
        return str(error.get("type", "")) if isinstance(error, dict) else ""

    @property
    def reason(self) -> str:
        """The server's own words for the error."""
        return reason_of(self.body.get("error"))


def reason_of(error: Any) -> str:
    """Return the type and reason of an error, and of its cause."""
    if not isinstance(error, dict):
        return str(error or "no reason given")[:_LONGEST]
    words = f"{error.get('type', '')}: {error.get('reason', '')}"
    if isinstance(cause := error.get("caused_by"), dict) and cause.get("reason"):
        words += f" ({cause['reason']})"
    return words[:_LONGEST]


class SearchClient:
    """Requests to one server, one at a time; none is repeated here.

    SinkUnavailable: no answer, or one that the caller does not expect; the request may have had its
    effect. ConfigError: an operator has to change credentials or certificates.
    """

    def __init__(self, url: str, *, api_key: str = "", ca: str = "") -> None:
        """``ca``: file with the certificates to trust; empty: those of the system."""
        self._url = parse_url(url)
        self._headers = {
            "content-type": "application/json",
            "user-agent": f"crawlstream/{__version__}",
            **_credentials(self._url, api_key),
        }
        self._tls = _trusting(ca) if self._url.scheme == "https" else None
        self._connection: HTTPConnection | None = None
        self._is_interrupted = False

    @property
    def place(self) -> str:
        """Return the URL of the server without secrets."""
        return f"{self._url.scheme}://{self._url.host}:{self._url.port or _PORT}"

    def open(self) -> None:
        """Begin with a new connection."""
        self.close()
        self._is_interrupted = False

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def interrupt(self) -> None:
        """Make all requests fail until it is opened again; from another thread."""
        self._is_interrupted = True
        connection = self._connection
        if connection is not None and isinstance(connection.sock, socket.socket):
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def call(
        self, method: str, path: str, body: object = None, /, *accepted: int, **options: object
    ) -> SearchAnswer:
        """Return the answer to a request, whose status is 2xx or one of ``accepted``.

        ``body``: JSON, or bytes to be sent as they are. ``options`` are parameters of the URL.
        """
        query = f"?{urlencode(options)}" if options else ""
        prefix = (self._url.path or "").rstrip("/")
        sent = body if isinstance(body, bytes | None) else jsontext.dumps(body)
        answer = self._sent(method, f"{prefix}{path}{query}", sent)
        if answer.status // 100 == 2 or answer.status in accepted:
            return answer
        raise self._failure(f"{method} {path}", answer)

    def _failure(self, request: str, answer: SearchAnswer) -> ConfigError | SinkUnavailable:
        if answer.status == 401:
            return ConfigError(
                f"{self.place} refuses the credentials: check user and password in url, or api_key"
            )
        if answer.status == 403 and answer.error != "cluster_block_exception":
            return ConfigError(
                f"{self.place} does not permit {request}: {answer.reason}; the user needs the"
                " permissions to create, read and write the two indexes"
            )
        return SinkUnavailable(
            f"{self.place} answers {request} with {answer.status}: {answer.reason}"
        )

    def _sent(self, method: str, target: str, body: bytes | None) -> SearchAnswer:
        if self._is_interrupted:
            raise SinkUnavailable(f"{self.place} takes too long to answer")
        try:
            connection = self._connected()
            connection.request(method, target, body=body, headers=self._headers)
            response = connection.getresponse()
            status, data = response.status, response.data
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise ConfigError(
                f"the certificate of {self.place} is not trusted ({error.verify_message}): set ca"
                " to a file with the certificate of its authority"
            ) from error
        except (HTTPError, OSError) as error:
            self.close()
            raise SinkUnavailable(f"{self.place} does not answer: {error}") from error
        return SearchAnswer(status, self._read(status, data))

    def _read(self, status: int, data: bytes) -> Mapping[str, Any]:
        try:
            told: Any = jsontext.loads(data)
        except ValueError as error:
            if status // 100 != 2:
                return {"error": data[:_LONGEST].decode(errors="replace")}
            raise SinkUnavailable(
                f"{self.place} does not answer in JSON: check that url leads to OpenSearch or"
                " Elasticsearch"
            ) from error
        return told if isinstance(told, dict) else {"error": told}

    def _connected(self) -> HTTPConnection:
        connection = self._connection
        if connection is not None and not connection.is_connected:
            connection.close()
        if connection is None:
            host, port = str(self._url.host).strip("[]"), self._url.port or _PORT
            connection = (
                HTTPConnection(host, port, timeout=TIMEOUT_S)
                if self._tls is None
                else HTTPSConnection(host, port, timeout=TIMEOUT_S, ssl_context=self._tls)
            )
            self._connection = connection
        return connection


def segment(name: str) -> str:
    """Return a name as a segment of a path."""
    return quote(name, safe="")


def _credentials(url: Url, api_key: str) -> Mapping[str, str]:
    if api_key:
        return {"authorization": f"ApiKey {api_key}"}
    if not url.auth:
        return {}
    told = base64.b64encode(unquote(url.auth).encode()).decode()
    return {"authorization": f"Basic {told}"}


def _trusting(ca: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca or None)
    except OSError as error:
        raise ConfigError(f"ca: the file {ca} cannot be read: {error}") from error
