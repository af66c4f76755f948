"""PDF files made of nothing but bytes, for tests of readers."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

_CATALOG, _TREE, _FONT, _INFO = 1, 2, 3, 4
_FIRST = 5


def pdf(*pages: str, links: Sequence[str] = (), lang: str = "", **info: str) -> bytes:
    """Return a document with these pages, each of some lines, and links on the first one."""
    objects: dict[int, bytes] = {}
    numbers = range(_FIRST, _FIRST + 2 * len(pages), 2)
    kids = " ".join(f"{number} 0 R" for number in numbers)
    language = f"/Lang ({lang})" if lang else ""
    objects[_CATALOG] = f"<</Type/Catalog/Pages {_TREE} 0 R{language}>>".encode()
    objects[_TREE] = f"<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>".encode()
    objects[_FONT] = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
    objects[_INFO] = (
        "".join(f"/{name.title()} ({info[name]})" for name in info).join(["<<", ">>"]).encode()
    )
    for number, text in zip(numbers, pages, strict=True):
        annotations = "".join(map(_link, links if number == _FIRST else ()))
        objects[number] = (
            f"<</Type/Page/Parent {_TREE} 0 R/MediaBox[0 0 600 800]/Contents {number + 1} 0 R"
            f"/Resources<</Font<</F {_FONT} 0 R>>>>/Annots[{annotations}]>>"
        ).encode()
        objects[number + 1] = stream(_shown(text))
    return file_of(objects)


def bomb(operators: int) -> bytes:
    """Return a small document whose page is of very many operators."""
    drawing = stream(b"1 1 m 2 2 l S\n" * operators)
    return file_of(
        {
            _CATALOG: f"<</Type/Catalog/Pages {_TREE} 0 R>>".encode(),
            _TREE: f"<</Type/Pages/Kids[{_FIRST} 0 R]/Count 1>>".encode(),
            _FIRST: (
                f"<</Type/Page/Parent {_TREE} 0 R/MediaBox[0 0 600 800]/Contents {_FIRST + 1} 0 R>>"
            ).encode(),
            _FIRST + 1: drawing,
        }
    )


def encrypted() -> bytes:
    """Return a document that needs a password."""
    secret = "ab" * 32
    lock = (
        f"/Encrypt<</Filter/Standard/V 2/R 3/Length 128/P -4/O<{secret}>/U<{secret}>>>/ID[<aa><aa>]"
    )
    return pdf("a secret").replace(b"trailer<<", b"trailer<<" + lock.encode())


def stream(content: bytes) -> bytes:
    """Return a compressed stream."""
    packed = zlib.compress(content, 9)
    return b"<</Length %d/Filter/FlateDecode>>stream\n%b\nendstream" % (len(packed), packed)


def file_of(objects: Mapping[int, bytes]) -> bytes:
    """Return a file with these objects, by their numbers."""
    made = bytearray(b"%PDF-1.7\n")
    places = {}
    for number, content in objects.items():
        places[number] = len(made)
        made += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    table = "".join(f"{number} 1\n{place:010d} 00000 n \n" for number, place in places.items())
    start = len(made)
    trailer = f"trailer<</Size {max(objects) + 1}/Root {_CATALOG} 0 R/Info {_INFO} 0 R>>"
    made += (
        f"xref\n0 1\n0000000000 65535 f \n{table}{trailer}\nstartxref\n{start}\n%%EOF\n".encode()
    )
    return bytes(made)


def _shown(text: str) -> bytes:
    lines = "".join(f"({line}) Tj T*\n" for line in text.splitlines())
    return f"BT /F 12 Tf 14 TL 50 700 Td\n{lines}ET".encode("latin-1")


def _link(url: str) -> str:
    return f"<</Type/Annot/Subtype/Link/Rect[0 0 9 9]/A<</S/URI/URI({url})>>>>"
