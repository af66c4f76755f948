"""Frontiers and memories that were filled before there were addresses are crawled to their end.

The table was written by the version before: what it stored for a reference, and under which
fingerprint.
"""

from __future__ import annotations

import pytest

from crawlstream.model.url import canonical, fingerprint, look_up_link
from crawlstream.model.web.address import address, resolved

BASE = "http://site.example/dir/page"

STORED = [
    ("/a/b.html", "http://site.example/a/b.html", "-1805885754830100954"),
    ("../c/./d/../e", "http://site.example/c/e", "3685960729155491040"),
    ("x?b=2&a=1", "http://site.example/dir/x?a=1&b=2", "-3236137586429328638"),
    ("x?a=1&b=2", "http://site.example/dir/x?a=1&b=2", "-3236137586429328638"),
    ("?wsdl", "http://site.example/dir/page?wsdl=", "1890288466456995694"),
    (
        "index.php?/blog/view/12",
        "http://site.example/dir/index.php?%2Fblog%2Fview%2F12=",
        "-5532895803465277666",
    ),
    (
        "x?p=a.git;a=commit;h=1f",
        "http://site.example/dir/x?p=a.git%3Ba%3Dcommit%3Bh%3D1f",
        "8596011881822804214",
    ),
    ("x?sig=ab/cd+ef==", "http://site.example/dir/x?sig=ab%2Fcd+ef%3D%3D", "1551411793937167295"),
    ("x?q=%GG", "http://site.example/dir/x?q=%25GG", "3599101651661462256"),
    ("x?q=%7e%41&e=", "http://site.example/dir/x?e=&q=~A", "-2245384495619566872"),
    ("x?q=a+b%20c", "http://site.example/dir/x?q=a+b+c", "-2730581458779020590"),
    ("x?q=ü", "http://site.example/dir/x?q=%C3%BC", "5342322045114744818"),
    ("ünï/日本", "http://site.example/dir/%C3%BCn%C3%AF/%E6%97%A5%E6%9C%AC", "7096349203474359019"),
    ("sp ace", "http://site.example/dir/sp%20ace", "3414597435830170128"),
    ("%7Eu/x", "http://site.example/dir/~u/x", "583038335417172168"),
    ("~u/x", "http://site.example/dir/~u/x", "583038335417172168"),
    ("a|b[c]^`{}", "http://site.example/dir/a%7Cb%5Bc%5D%5E%60%7B%7D", "8017225109366432561"),
    (
        "x?a|b[c]^`{}'\"",
        "http://site.example/dir/x?a%7Cb%5Bc%5D%5E%60%7B%7D%27%22=",
        "6862827490862674097",
    ),
    ("x;y=1;z", "http://site.example/dir/x;y=1;z", "-8733385498104329034"),
    ("x?a=1#part", "http://site.example/dir/x?a=1", "-7020054978745621912"),
    ("//Other.EXAMPLE:80/x", "http://other.example/x", "-4728516463091200834"),
    ("https://other.example:443/x", "https://other.example/x", "-8899950688591095817"),
    ("http://bücher.example/x", "http://xn--bcher-kva.example/x", "-4403619533004537288"),
    ("http://xn--bcher-kva.example/x", "http://xn--bcher-kva.example/x", "-4403619533004537288"),
    ("http://127.0.0.1:8080/x", "http://127.0.0.1:8080/x", "809017647142561293"),
    ("http://[2001:DB8::1]/x", "http://[2001:db8::1]/x", "-8216811394206584293"),
    ("http://other.example./x", "http://other.example/x", "-4728516463091200834"),
    ("x?", "http://site.example/dir/x", "-8950500998203165118"),
    ("x?&&a=1", "http://site.example/dir/x?a=1", "-7020054978745621912"),
    ("x?a=1?b=2", "http://site.example/dir/x?a=1%3Fb%3D2", "1663673563696227874"),
    ("x?a&a=1", "http://site.example/dir/x?a=&a=1", "6548543388208159933"),
    ("%2e%2e/%2E/x", "http://site.example/x", "-2514887271517757361"),
    ("x%2Fy", "http://site.example/dir/x%2Fy", "-1419899983628624621"),
    (
        "x?r=http://h.example/?a=1",
        "http://site.example/dir/x?r=http%3A%2F%2Fh.example%2F%3Fa%3D1",
        "5498364307767814644",
    ),
    ("x?a=%26%3D", "http://site.example/dir/x?a=%26%3D", "-8704695929468735265"),
    ("x?=1", "http://site.example/dir/x?=1", "-3712534624788305508"),
    ("x?é=%E9", "http://site.example/dir/x?%C3%A9=%E9", "4384744961977916399"),
    ("*!$(),@:", "http://site.example/dir/*!$(),@:", "5710233171284635464"),
    (
        "x.html?page=1&sort=name&page=2",
        "http://site.example/dir/x.html?page=1&page=2&sort=name",
        "-6586028813880772492",
    ),
]
"""Reference on the page at BASE, spelling that was stored, fingerprint."""


@pytest.mark.parametrize(("reference", "spelling", "known"), STORED)
def test_a_page_is_known_by_what_it_was_known_by(reference: str, spelling: str, known: str) -> None:
    """Fetches nothing twice and leaves nothing behind.

    A link has the fingerprint that it had, though not the spelling; what is queued in the spelling
    of then is asked for in it, but for an apostrophe that is escaped.
    """
    found = resolved(BASE, reference)
    assert found
    assert look_up_link(found)[2] == fingerprint(found) == known
    assert canonical(found) == spelling
    assert fingerprint(spelling) == fingerprint(address(spelling)) == known
    assert address(spelling).replace("%27", "'") == spelling.replace("%27", "'")
