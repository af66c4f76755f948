"""WARC files of a pipeline as a player reads them: revisits have the payload of their record."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from warcio.archiveiterator import ArchiveIterator

from crawlstream.model.result import digest_of
from crawlstream.store.store import Store
from pipeline_service.formats.cdxj import surt

_IDENTICAL = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"


@dataclass
class Archive:
    """Content of the files."""

    bodies: dict[str, bytes] = field(default_factory=dict)
    """Payload of each page, by its id."""
    copies: Counter[bytes] = field(default_factory=Counter)
    """How often each payload is stored."""
    revisits: Counter[str] = field(default_factory=Counter)
    """How often each URL is referred to."""


def check_indexes(store: Store) -> None:
    """Fail unless each WARC file has an index next to it, with a sorted line for each response."""
    for name, content in files_of(store).items():
        lines = (store.get(f"{name.removesuffix('.warc.gz')}.cdxj") or b"").splitlines()
        assert lines == sorted(lines)
        places = set()
        for line in lines:
            key, at, told = line.decode().split(" ", 2)
            place = json.loads(told)
            begin, length = int(place["offset"]), int(place["length"])
            (found,) = ArchiveIterator(io.BytesIO(content[begin : begin + length]))
            head = found.rec_headers
            assert (place["filename"], key) == (name, surt(place["url"]))
            assert head.get_header("WARC-Target-URI") == place["url"]
            assert head.get_header("WARC-Payload-Digest") == place["digest"]
            assert (place["mime"] == "warc/revisit") == (found.rec_type == "revisit")
            date = head.get_header("WARC-Date")
            assert at == "".join(each for each in date[:19] if each.isdigit())
            places.add(begin)
        kinds = [each.rec_type for each in ArchiveIterator(io.BytesIO(content))]
        assert len(places) == kinds.count("response") + kinds.count("revisit")


def files_of(store: Store) -> Mapping[str, bytes]:
    """Return the WARC files of a store, by their names."""
    names = [name for name in store.list() if name.endswith(".warc.gz")]
    return {name: store.get(name) or b"" for name in names}


def read_archive(files: Mapping[str, bytes]) -> Archive:
    """Read files; fail where a digest is wrong, a page comes twice or a record is missing."""
    found, held, referring = Archive(), {}, {}
    for content in files.values():
        for each in ArchiveIterator(io.BytesIO(content), check_digests="raise"):
            if each.rec_type not in {"response", "revisit"}:
                continue
            head, body = each.rec_headers, each.content_stream().read()
            page = head.get_header("WARC-Record-ID")[10:-1].replace("-", "")
            digest = head.get_header("WARC-Payload-Digest")
            assert page not in found.bodies
            assert page not in referring
            if each.rec_type == "response":
                place = head.get_header("WARC-Target-URI"), head.get_header("WARC-Date")
                held[place], found.bodies[page] = body, body
                found.copies[body] += 1
                assert digest == digest_of(body)
            else:
                assert head.get_header("WARC-Profile") == _IDENTICAL
                names = ("WARC-Refers-To-Target-URI", "WARC-Refers-To-Date")
                referring[page] = digest, tuple(map(head.get_header, names))
    for page, (digest, place) in referring.items():
        found.bodies[page] = held[place]
        found.revisits[place[0]] += 1
        assert digest == digest_of(held[place])
    return found
