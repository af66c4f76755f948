"""Records of a WARC file as pipelines write it: a gzip member for each, read as a stream."""

from __future__ import annotations

import hashlib
import zlib
from base64 import b32encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from pipeline_service.formats.payloads import PayloadRecord

_PART = 64 * 1024
_LONGEST_HEAD = 1024 * 1024
_GZIP = 31
"""The parameter ``wbits`` of zlib for gzip."""
_END = b"\r\n\r\n"
_ALGORITHMS = ("sha256", "sha1")


class BrokenFile(Exception):
    """The rest of a file cannot be read."""


@dataclass(frozen=True, slots=True)
class WarcRecord:
    """Record of a file, without its block."""

    headers: Mapping[str, str]
    """By their names in lower case."""
    offset: int
    length: int
    """Bytes in the file, compressed."""
    problem: str = ""
    """Fault of its digests; empty: they are right."""

    def get(self, name: str) -> str:
        """Return a header by its name in lower case; empty if there is none."""
        return self.headers.get(name, "")

    @property
    def kind(self) -> str:
        """Return the type of the record."""
        return self.get("warc-type")

    @property
    def place(self) -> PayloadRecord:
        """Return what a revisit says to refer to it."""
        return PayloadRecord(self.get("warc-target-uri"), self.get("warc-date"))

    @property
    def holder(self) -> PayloadRecord | None:
        """Return the record that has the payload of a revisit; None: it names none."""
        url = self.get("warc-refers-to-target-uri")
        return PayloadRecord(url, self.get("warc-refers-to-date")) if url else None

    @property
    def is_of_a_page(self) -> bool:
        """Return whether it is the first record of a page, to which others belong."""
        is_alone = self.kind == "metadata" and not self.get("warc-concurrent-to")
        return is_alone or self.kind in {"response", "revisit"}


class WarcFile:
    """File that is read once, from its beginning."""

    def __init__(self, file: BinaryIO) -> None:
        self.size = 0
        """Bytes that were read."""
        self._file = file
        self._hash = hashlib.sha256()
        self._left = b""
        """Compressed bytes that are not used yet."""

    @property
    def offset(self) -> int:
        """Return where the next record begins."""
        return self.size - len(self._left)

    def records(self) -> Iterator[WarcRecord]:
        """Yield the records. BrokenFile."""
        while self._fill():
            begin = self.offset
            try:
                headers, problem = _read(self._member())
            except (ValueError, zlib.error) as error:
                raise BrokenFile(f"the record at {begin} cannot be read: {error}") from error
            yield WarcRecord(headers, begin, self.offset - begin, problem)

    def sha256(self) -> str:
        """Read the rest of the file; return the digest of all of it."""
        while self._read():
            pass
        return self._hash.hexdigest()

    def _read(self) -> bytes:
        data = self._file.read(_PART)
        self._hash.update(data)
        self.size += len(data)
        return data

    def _fill(self) -> bool:
        """Return whether there are bytes left."""
        self._left = self._left or self._read()
        return bool(self._left)

    def _member(self) -> Iterator[bytes]:
        """Yield the parts of a gzip member."""
        unpack = zlib.decompressobj(_GZIP)
        while not unpack.eof:
            if not self._fill():
                raise ValueError("the file ends in it")
            part = unpack.decompress(self._left, _PART)
            self._left = unpack.unused_data or unpack.unconsumed_tail
            if part:
                yield part


def _read(parts: Iterator[bytes]) -> tuple[Mapping[str, str], str]:
    """Read a record; return its headers, and what is wrong with its digests. ValueError."""
    head, rest = _split(parts, b"", (_END,))
    headers = _headers(head)
    block = _Block(int(headers["content-length"]), parts, rest)
    names = (headers.get("warc-block-digest", ""), headers.get("warc-payload-digest", ""))
    whole, payload = map(_hash_of, names)
    if headers.get("content-type", "").startswith("application/http"):
        http, beginning = _split(iter(block), b"", (b"\n\r\n", b"\n\n"))
        whole.update(http + beginning)
        payload.update(beginning)
    for part in block:
        whole.update(part)
        payload.update(part)
    block.check_end()
    is_whole = names[0] == "" or _named(names[0], whole)
    has_payload = names[1] != "" and headers.get("warc-type") != "revisit"
    if not is_whole:
        return headers, "its block is not that of WARC-Block-Digest"
    if has_payload and not _named(names[1], payload):
        return headers, "its payload is not that of WARC-Payload-Digest"
    return headers, ""


class _Block:
    """Block of a record: up to its length of the bytes that follow."""

    def __init__(self, length: int, parts: Iterator[bytes], rest: bytes) -> None:
        self._left = length
        self._parts = parts
        self._rest = rest

    def __iter__(self) -> Iterator[bytes]:
        while self._left:
            if not self._rest:
                self._rest = next(self._parts, b"")
            if not self._rest:
                raise ValueError("it is shorter than its Content-Length")
            part, self._rest = self._rest[: self._left], self._rest[self._left :]
            self._left -= len(part)
            yield part

    def check_end(self) -> None:
        """Read the end of the record; ValueError if that is not an empty line and one more."""
        end = self._rest
        for part in self._parts:
            end = (end + part)[:_PART]
        if end != _END:
            raise ValueError("it is longer than its Content-Length")


def _split(parts: Iterator[bytes], data: bytes, ends: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    """Return the bytes up to and with the first of some ends, and those of the last part after."""
    while True:
        places = [(at, end) for end in ends if (at := data.find(end)) >= 0]
        if places:
            at, end = min(places)
            return data[: at + len(end)], data[at + len(end) :]
        if len(data) > _LONGEST_HEAD:
            raise ValueError("its head does not end")
        if not (part := next(parts, b"")):
            raise ValueError("its head is cut")
        data += part


def _headers(head: bytes) -> Mapping[str, str]:
    version, *lines = head.removesuffix(_END).decode().split("\r\n")
    if not version.startswith("WARC/1."):
        raise ValueError("it does not begin with WARC/1.1")
    pairs = [line.partition(":") for line in lines]
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    for name in ("warc-type", "warc-record-id", "warc-date", "content-length"):
        if not headers.get(name):
            raise ValueError(f"it has no {name}")
    if not headers["content-length"].isdigit():
        raise ValueError("its Content-Length is not a number")
    return headers


def _hash_of(name: str) -> Any:
    algorithm = name.partition(":")[0] or "sha256"
    if algorithm not in _ALGORITHMS:
        raise ValueError(f"its digest {name!r} is not one of {', '.join(_ALGORITHMS)}")
    return hashlib.new(algorithm, usedforsecurity=False)


def _named(name: str, digest: Any) -> bool:
    told = name.partition(":")[2]
    return told in (digest.hexdigest(), b32encode(digest.digest()).decode())
