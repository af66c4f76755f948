"""Addresses and markup: what a link is, and where it leads (URL Standard, HTML Standard)."""

from __future__ import annotations

from html import escape

from crawlstream_chaos.scripted_site import Answer
from support.oddities.case import Case, answer, links, moved, text

_AS_WRITTEN = {
    "?wsdl": "/?wsdl",
    "index.php?/blog/view/12": "/index.php?/blog/view/12",
    "?p=a.git;a=commit;h=1f": "/?p=a.git;a=commit;h=1f",
    "x?b=2&a=1": "/x?b=2&a=1",
    "?q=%GG": "/?q=%GG",
    "?sig=ab/cd+ef==": "/?sig=ab/cd+ef==",
    "a|b[c]?d|e": "/a|b[c]?d|e",
    "%7Eu/ü": "/%7Eu/%C3%BC",
    "end?": "/end?",
    "both?#top": "/both?",
    "??": "/??",
    "?a&&b": "/?a&&b",
    "a%2Fb%5cc": "/a%2Fb%5cc",
    "+a+b?c+d%20e": "/+a+b?c+d%20e",
    "semi;v=1;w/x": "/semi;v=1;w/x",
    "%": "/%",
    "a:b": None,
    "./a:b": "/a:b",
    "@me:x": "/@me:x",
    "*,'()!": "/*,'()!",
    "?it's": "/?it%27s",
    "a b?c d": "/a%20b?c%20d",
    '"<>`{}?"<>`{}': "/%22%3C%3E%60%7B%7D?%22%3C%3E`{}",
    "日本?日本": "/%E6%97%A5%E6%9C%AC?%E6%97%A5%E6%9C%AC",
}
"""Links of a page, and the requests that the site gets."""
_AGAIN = ["x?a=1&b=2", "%7eu/%c3%bc", "a%7Cb%5Bc%5D?d%7Ce", "?wsdl=", "end", "?wsdl#part"]
"""Other spellings of the same pages; the last one is the same address."""
_FORBIDDEN = ["/search?sort=1&q=a", "/doc?print", "/index.php?/admin/x"]
_ROBOTS = "User-agent: *\nDisallow: /search?sort=\nDisallow: /*?print$\nDisallow: /index.php?/admin"


def _one(name: str, page: str, *asked: str, **more: object) -> Case:
    return Case(name, {"/": page}, asked, **more)  # type: ignore[arg-type]


def _deep(tag: str, count: int) -> str:
    return f"<a href=/0>0</a>{f'<{tag}>' * count}<a href=/1>1</a>{f'</{tag}>' * count}"


ADDRESSES = [
    Case(
        "addresses are sent as written, once, and judged so by robots.txt",
        {
            "/": links(*map(escape, (*_AS_WRITTEN, *_AGAIN, *_FORBIDDEN))),
            "/robots.txt": text(_ROBOTS),
        },
        [path for path in _AS_WRITTEN.values() if path],
        failed=dict.fromkeys(_FORBIDDEN, "robots"),
        filtered={"duplicate": len(_AGAIN) - 1},
    ),
    _one(
        "backslashes",
        links(r"\back\slash", "/\\{at}/host", "a\\b?c\\d", "http:\\\\{at}\\x", "\\\\{at}\\y"),
        *("/back/slash", "/host", "/a/b?c\\d", "/x", "/y"),
    ),
    _one(
        "empty segments and dots",
        links(
            *(
                "two//slashes",
                "web/1/http://h.test/",
                "d/./e/../f",
                "../../up",
                "g/..",
                "h/%2e%2E/",
            ),
            *("i/.%2e/j", "./.", "k/...", "///{at}/three", "http:/four/x", "http:///{at}/five"),
        ),
        *("/two//slashes", "/web/1/http://h.test/", "/d/f", "/up", "/j", "/k/..."),
        *("/three", "/four/x", "/five"),
        filtered={"duplicate": 1},
    ),
    _one(
        "references without a host of their own",
        links("http:rel", "http:/root", "//{at}/net", "HTTP://{at}/case", "?", "#", "", " "),
        *("/rel", "/root", "/net", "/case"),
        filtered={"duplicate": 2},
    ),
    _one(
        "whitespace within and around an href",
        links(
            *("  /a  ", "\t/b\n", "/c\n/d", "/e\r\n  f", "ht\ntp://{at}/g", "\x01\x1f/h", "\f/i"),
            *("&#9;/j&Tab;&NewLine;", "/k&nbsp;", "/l\u2003m"),
        ),
        *("/a", "/b", "/c/d", "/e%20%20f", "/g", "/h", "/i", "/j", "/k%C2%A0", "/l%E2%80%83m"),
    ),
    _one(
        "entities in an href",
        links(
            *(
                "/?a=1&copy=2",
                "/?a=1&amp;b=2",
                "/?a&amp=3",
                "/?a=1&lang=en",
                "/?a&#38;b",
                "/?a&#x26;c",
            ),
            *(
                "/?d&region=1&notit=2",
                "/?e&ampf=1",
                "/?g&copy;",
                "/?h&lt",
                "/x&#x2F;h",
                "/i&period;j",
                "/&#128;",
            ),
        ),
        *("/?a=1&copy=2", "/?a=1&b=2", "/?a&amp=3", "/?a=1&lang=en", "/?a&b", "/?a&c"),
        *(
            "/?d&region=1&notit=2",
            "/?e&ampf=1",
            "/?g%C2%A9",
            "/?h%3C",
            "/x/h",
            "/i.j",
            "/%E2%82%AC",
        ),
    ),
    _one(
        "references to characters in an href",
        links(
            *("/1&#59;2", "/3&#65b", "/4&#0;", "/5&#xD800;", "/6&#x110000;", "/7&nbspa", "/8&#1;a"),
            *("/9\u200b", "/%09%0A", "\ufeff/x"),
        ),
        *("/1;2", "/3Ab", "/4%EF%BF%BD", "/5%EF%BF%BD", "/6%EF%BF%BD", "/7&nbspa", "/8%01a"),
        *("/9%E2%80%8B", "/%09%0A", "/%EF%BB%BF/x"),
    ),
    _one(
        "hosts in odd spellings",
        links(
            *("http://0x7f.1:{port}/hex", "http://2130706433:{port}/number"),
            *("http://127.0.0.%31:{port}/escape", "http://\uff11\uff12\uff17.0.0.1:{port}/wide"),
            *("http://ODD-Case.EXAMPLE:{port}/", "http://odd-dot.example.:{port}/"),
            *("http://odd_under.example:{port}/", "http://-odd-.example:{port}/"),
            *("http://odd-port.example:0{port}/",),
        ),
        *("127.0.0.1/hex", "127.0.0.1/number", "127.0.0.1/escape", "127.0.0.1/wide"),
        *("odd-case.example/", "odd-dot.example/", "odd_under.example/", "-odd-.example/"),
        *("odd-port.example/", "127.0.0.1/robots.txt", "odd-case.example/robots.txt"),
        *("odd-dot.example/robots.txt", "odd_under.example/robots.txt"),
        *("-odd-.example/robots.txt", "odd-port.example/robots.txt"),
    ),
    _one(
        "hosts in their own script",
        links(
            *("http://bücher.example:{port}/", "http://faß.example:{port}/"),
            *("http://βόλος.example:{port}/", "http://☃.example:{port}/"),
            "http://xn--fa-hia.example:{port}/again",
        ),
        *("xn--bcher-kva.example/", "xn--bcher-kva.example/robots.txt", "xn--fa-hia.example/"),
        *("xn--fa-hia.example/again", "xn--fa-hia.example/robots.txt", "xn--nxasmm1c.example/"),
        *("xn--nxasmm1c.example/robots.txt", "xn--n3h.example/", "xn--n3h.example/robots.txt"),
    ),
    Case(
        "a seed in its own script",
        {"xn--xu8h.example/": links("http://📻.example:{port}/on")},
        ["xn--xu8h.example/", "xn--xu8h.example/on", "xn--xu8h.example/robots.txt"],
        seed="http://📻.example:{port}/",
        request={"allowed_domains": ["📻.example"]},
    ),
    _one(
        "references that lead nowhere",
        links(
            *("javascript:location='/x'", "JavaScript:1", " javascript:2", "mailto:a@b.example"),
            *("tel:5551", "data:text/html,x", "blob:http://{at}/x", "about:blank", "ftp://{at}/x"),
            *("http://", "http://a b/", "http://[::1/", "http://{at}:99999/", "http://u:p@{at}/"),
            *("//", "http://?x", "/" + "x" * 2100),
        ),
        filtered={"scheme": 1, "url": 8},
    ),
    Case(
        "letter case of a path",
        {"/": links("/A", "/a", "/%C3%A9", "/é")},
        ["/A", "/a", "/%C3%A9"],
    ),
]

MARKUP = [
    _one(
        "tags and attributes as people write them",
        "<A HREF=/1>1</A><a href='/2'>2</a><a\nhref\n=\n/3\n>3</a><a class=x href=/4/>4</a>"
        '<a href="/5"href="/wrong">5</a><a/href=/6>6</a><a href=/7 / >7</a><a href=/8<9>8</a>'
        "<a title='>' href=/10>10</a><a href = \"/11\">11</a><a data-href=/no>no</a>"
        "<a HREF=/12 href=/no>12</a><a b href=/13 c>13</a><a href=/14?a=b=c>14</a>",
        *("/1", "/2", "/3", "/4/", "/5", "/6", "/7", "/8%3C9", "/10", "/11", "/12", "/13"),
        "/14?a=b=c",
    ),
    _one(
        "links where others end or begin",
        "<a href=/1>1<a href=/2>2</a><table><a href=/3>3</a><tr><a href=/4>4</a><td><a href=/5>"
        "</table><p><a href=/6><p><b><i><a href=/7></b></i></a><button><a href=/8>8</a></button>"
        "<ul><li><a href=/9>9<li><a href=/10>10</ul></body></html><a href=/11>11</a>"
        "<html><body><a href=/12>12</a></html><!-- --><div><a href=/13>13</a>",
        *(f"/{number}" for number in range(1, 14)),
    ),
    _one(
        "text that only looks like links",
        "<!-- <a href=/no1> --><script>'<a href=/no2>'</script><style><a href=/no3></style>"
        "<title><a href=/no4></title><textarea><a href=/no5></textarea><xmp><a href=/no6></xmp>"
        "<iframe><a href=/no7></iframe><noembed><a href=/no8></noembed>"
        "<noframes><a href=/no9></noframes><script><!--<script></script><a href=/no10>--></script>"
        "<a href=/1>1</a><p title='<a href=/no11>'>x</p>&lt;a href=/no12><a href=/2>2</a>"
        "<!--><a href=/3>3</a><!-- --!><a href=/4>4</a><plaintext><a href=/no13>",
        *("/1", "/2", "/3", "/4"),
    ),
    _one(
        "tags that are none",
        "<<a href=/1>1</a>< a href=/no1><a\x0bhref=/no2><a:b href=/no3></a href=/no4><!a href=/no5>"
        "<?a href=/no6><![CDATA[<a href=/no7>]]><svg><![CDATA[<a href=/no8>]]></svg>"
        "<!-- -- > <a href=/no9> --><abbr href=/no10><a name=href>x</a><a href=/2>2</a>"
        "<a href=/no11",
        *("/1", "/2"),
    ),
    _one(
        "a quote that is left open", '<a href=/1>1</a><a href="/no>2</a> <a href=/no2>3</a>', "/1"
    ),
    _one("a title that is left open", "<a href=/1>1</a><title>x<a href=/no>2</a>", "/1"),
    _one(
        "areas, forms, frames and resources",
        "<map><area href=/1><AREA HREF=/2 nohref></map><link rel=next href=/no1>"
        "<form action=/no2><button formaction=/no3></form><img src=/no4 longdesc=/no5>"
        "<iframe src=/no6></iframe><frame src=/no7><blockquote cite=/no8>q</blockquote>"
        "<object data=/no9></object><a ping=/no10 href=/3 rel=nofollow download>3</a>"
        "<noscript><a href=/4>4</a></noscript><svg><a href=/5>5</a></svg>"
        "<template><a href=/6>6</a></template>",
        *("/1", "/2", "/3", "/4", "/5", "/6"),
    ),
    _one(
        "base elements",
        "<!-- <base href=/no/> --><base target=_top><base href='/b/?x'><base href=/no/>"
        + links("1", "/2", "?3", "#4", ""),
        *("/b/1", "/2", "/b/?3", "/b/?x"),
    ),
    _one("a base that is no address", "<base href='data:,x'>" + links("1"), "/1"),
    _one("a base without an end", "<base href='b'>" + links("1", "?2"), "/1", "/b?2"),
    _one(
        "a base elsewhere",
        "<base href='http://{other}/x/'>" + links("1"),
        "other:/x/1",
        "other:/robots.txt",
    ),
    _one(
        "a base whose scheme is not crawled",
        "<base href='ftp://x.example/'>" + links("1", "?2", "//{at}/3", "http://{at}/4"),
        "/4",
        filtered={"url": 3},
    ),
    _one("a late base", f"<style>{'x' * 6000}</style><base href=/b/>" + links("1"), "/b/1"),
    _one("an early base in the body", "<body><p>x<base href=/b/>" + links("1"), "/b/1"),
    _one("deep in one another", _deep("div", 1900), "/0", "/1"),
    _one("deep and left open", "<font>" * 1500 + "<a href=/1>1</a>", "/1"),
    _one("deeper than parsers go", _deep("div", 2100), "/0", "/1"),
    _one("deeper than parsers go and left open", "<font>" * 5000 + "<a href=/1>1</a>", "/1"),
    _one("control characters", "\x00<a href=/1>1</a><a href=/2\x7f>2</a>\x00", "/1", "/2%7F"),
    _one(
        "a large image before the links",
        f"<img src='data:image/png;base64,{'A' * 1_100_000}'><a href=/1>1</a>",
        filtered={"markup_cut": 1},
    ),
    _one(
        "an image of half a megabyte before the links",
        f"<img src='data:image/png;base64,{'A' * 500_000}'><a href=/1>1</a>",
        "/1",
    ),
]

TYPES = [
    Case(
        "XHTML that is sent as XML",
        {
            "/": answer(
                '<?xml version="1.0"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml">'
                "<head><title>x</title></head><body><a href='/1'>1</a><br/><p/><a href='/2'/>"
                "</body></html>",
                Content_Type="application/xml",
            ),
            "/1": answer(
                '<html xmlns="http://www.w3.org/1999/xhtml"><body><a href="/3">3</a></body></html>',
                Content_Type="application/xhtml+xml",
            ),
        },
        ["/1", "/2", "/3"],
    ),
    Case(
        "XHTML with empty elements",
        {
            "/": answer(
                '<html xmlns="http://www.w3.org/1999/xhtml"><head><title/><script src="x"/></head>'
                "<body><iframe src='y'/><textarea/><a href='/1'>1</a></body></html>",
                Content_Type="application/xhtml+xml",
            )
        },
        ["/1"],
    ),
    Case(
        "pages of an odd type",
        {
            "/": links(*(f"/{name}" for name in ("none", "upper", "merged", "twice", "noslash"))),
            "/none": answer("<!doctype html>" + links("/1"), Content_Type=""),
            "/upper": answer(links("/2"), Content_Type="TEXT/HTML;Charset=UTF-8"),
            "/merged": answer(links("/3"), Content_Type="text/html, text/html; charset=utf-8"),
            "/twice": Answer(
                links("/4").encode(), more_headers=[("Content-Type", "text/html; charset=x")]
            ),
            "/noslash": answer("<html>" + links("/5"), Content_Type="html"),
        },
        ["/none", "/upper", "/merged", "/twice", "/noslash", "/1", "/2", "/3", "/4", "/5"],
    ),
    Case(
        "types that say nothing",
        {
            "/": links("/unknown", "/star", "/comment", "/blanks", "/text"),
            "/unknown": answer("<html>" + links("/1"), Content_Type="unknown/unknown"),
            "/star": answer("<html>" + links("/2"), Content_Type="*/*"),
            "/comment": answer("<!-- x -->" + links("/3"), Content_Type=""),
            "/text": answer("no page <!-- " + links("/no"), Content_Type=""),
            "/blanks": answer("\n\n  <!DOCTYPE html>" + links("/4"), Content_Type=""),
        },
        ["/unknown", "/star", "/comment", "/blanks", "/text", "/1", "/2", "/3", "/4"],
    ),
    Case(
        "what is no page",
        {
            "/": links("/plain", "/json", "/binary", "/201", "/200", "/404"),
            "/plain": text(links("/no1")),
            "/json": answer('{"a": "<a href=/no2>"}', Content_Type="application/json"),
            "/binary": answer(links("/no3"), Content_Type="application/octet-stream"),
            "/201": answer("", 201, Location="/no4"),
            "/200": answer("", 200, Location="/no5"),
            "/404": answer(links("/found"), 404),
        },
        ["/plain", "/json", "/binary", "/201", "/200", "/404", "/found"],
    ),
    Case("a link out of the web and back", {"/": links("/go"), "/go": moved("tel:5551")}, ["/go"]),
]
