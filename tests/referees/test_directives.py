"""Directives of pages as two other projects read them: Norconex' crawler, and jsoup.

Norconex judges statements: it reads one line without agents, so it gets all that headers and metas
say to everybody and to one agent in one line. jsoup judges markup, which it parses as the HTML
Standard says: the directives of a page are those of the metas that it finds. Maven fetches both.
Pages are made at random, the same ones in each run.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from scrapy.http import HtmlResponse

from crawling.page.directives import directives_of
from referees.java import answers

PROGRAM = Path(__file__).with_name("directives") / "DirectivesReferee.java"
STATEMENTS, PAGES = 4000, 6000
CLIENTS = ("oddbot", "other", "third")
CLIENT = CLIENTS[0]

NOINDEX = "<meta name=robots content=noindex>"
DIFFERENT: Sequence[tuple[str, str, str, str]] = (
    ("none", "", "noindex nofollow", "Norconex does not know it"),
    ("noindex; nofollow", "", "noindex nofollow", "Norconex knows no semicolons"),
    ("noindex nofollow", "", "noindex nofollow", "Norconex knows no spaces"),
    ("oddbot: noindex", "", "noindex", "Norconex knows no agents"),
    ("*: noindex", "", "noindex", "Norconex knows no agents"),
    ("nofollow", NOINDEX, "noindex nofollow", "Norconex reads no header beside a meta"),
    ("", f"{NOINDEX}<meta name=robots content=nofollow>", "noindex nofollow", "it reads one meta"),
    ("", "<meta name=robots content='max-snippet:9, noindex'>", "noindex", "it stops at a hyphen"),
    ("", f"<script>'{NOINDEX}'</script>", "", "Norconex reads the text of scripts"),
)
"""Header, page, which of noindex and nofollow crawlstream reads, why Norconex does not agree."""

MISPARSED: Sequence[tuple[str, bool, str]] = (
    (f"<title>x{NOINDEX}", False, "jsoup ends a title that has no end"),
    (f"<![CDATA[>{NOINDEX}]]>", True, "jsoup knows sections of XML"),
    (f"<svg><title>{NOINDEX}</title></svg>", False, "libxml2 knows HTML alone"),
    (f"<select>{NOINDEX}</select>", True, "a browser has no meta in a choice"),
    (f"<noscript><title>{NOINDEX}</title></noscript>", False, "jsoup ends no title there"),
    (f"<frameset>{NOINDEX}</frameset>", True, "a browser has no meta among frames"),
    ("<meta name=robots content='no\0index'>", True, "libxml2 passes over NUL"),
    (f"</head><body>{NOINDEX}", False, "nothing is read behind a head that has an end"),
)
"""A page, whether crawlstream reads noindex in it, and why jsoup does not agree."""

Line = Sequence[tuple[str, Sequence[str]]]
"""Agents and words of a header; the first agent may be empty."""

AGENTS = ("oddbot", "OddBot", "*", "other", "otherbot", "odd", "unknown.bot-2")
WORDS = (
    *("noindex", "nofollow", "none", "noarchive", "index", "follow", "all", "NoIndex", "NOFOLLOW"),
    *("max-snippet: 20", "max-image-preview:none", "noai", "", "index-all", "no index"),
    *("unavailable_after: 25 Jun 2010 15:00:00 PST", "unavailable_after: Fri, 25 Jun 2010, 15:00"),
)


def read(header: Sequence[str], page: str, client: str) -> set[str]:
    """Return what crawlstream reads in a response."""
    headers: dict[str, Any] = {"X-Robots-Tag": list(header)} if header else {}
    body = page.encode()
    response = HtmlResponse("http://a.example/", headers=headers, body=body, encoding="utf-8")
    return set(directives_of(response, client).texts)


def encoded(text: str) -> str:
    """Return a text for the program."""
    return base64.b64encode(text.encode()).decode()


def metas(answer: str) -> Iterator[tuple[str, str]]:
    """Yield name and content of the metas that jsoup has found."""
    for meta in filter(None, answer.split(" ")[1].split(",")):
        name, content = (base64.b64decode(each).decode() for each in meta.split(":"))
        yield name.strip().lower(), content


def verdict(told: set[str]) -> str:
    """Return the first word of the program for these directives."""
    return "".join(str(int(each in told)) for each in ("noindex", "nofollow"))


def line(random: Random) -> Line:
    """Return a header: words for all, then some for an agent, then some for another one."""
    agents = ["", *random.sample(AGENTS, random.randrange(3))]
    return [(agent, random.choices(WORDS, k=random.randrange(4))) for agent in agents]


def written(header: Line, random: Random) -> str:
    """Return the text of a header."""
    pieces: list[str] = []
    for agent, words in header:
        first = f"{agent}{random.choice((':', ': ', ' : '))}" if agent else ""
        pieces += [first + " , ".join(words)] if words or first else []
    return random.choice((", ", ",", " ,\t")).join(pieces)


def statement(random: Random) -> tuple[list[Line], list[tuple[str, list[str]]]]:
    """Return headers and metas, each with names and words."""
    lines = [line(random) for _ in range(random.randrange(3))]
    names = random.choices(("robots", "ROBOTS", "oddbot", "other", "description"), k=2)
    return lines, [(name, random.choices(WORDS, k=2)) for name in names[: random.randrange(3)]]


def merged(lines: list[Line], heads: list[tuple[str, list[str]]], client: str) -> str:
    """Return one line with all words for a client."""
    told = [words for each in lines for agent, words in each if agent.lower() in {"", "*", client}]
    told += [words for name, words in heads if name.lower() in {"robots", client}]
    spelled = (word.replace("none", "noindex, nofollow") for words in told for word in words)
    return ", ".join(spelled).replace("preview:noindex, nofollow", "preview:none")


def made_statements() -> Iterator[tuple[list[str], str, str, str]]:
    """Yield headers and page, client, and the one line that they are for it."""
    random = Random(4096)
    for _ in range(STATEMENTS):
        lines, heads = statement(random)
        headers = [written(each, random) for each in lines]
        page = "".join(f'<meta name={name} content="{", ".join(words)}">' for name, words in heads)
        for client in CLIENTS:
            yield headers, page, client, merged(lines, heads, client)


def test_statements_are_read_as_by_norconex(tmp_path: Path) -> None:
    """Finds the same noindex and nofollow, except what is listed with a reason."""
    made = [*made_statements()]
    listed = [f"{encoded(header)} {encoded(page)}" for header, page, *_ in DIFFERENT]
    theirs = [
        answer.split(" ")[0]
        for answer in answers(
            PROGRAM, tmp_path, [*listed, *(f"{encoded(one)} " for *_, one in made)]
        )
    ]
    for (header, page, ours, reason), their in zip(DIFFERENT, theirs, strict=False):
        told = verdict(set(ours.split()))
        assert verdict(read([header], page, CLIENT)) == told != their, reason
    pairs = zip(made, theirs[len(listed) :], strict=True)
    assert not [(case, their) for case, their in pairs if verdict(read(*case[:3])) != their]
    assert {*theirs} == {"00", "01", "10", "11"}


NAMES = ("robots", "robots", "ROBOTS", " robots\n", "rob&#111;ts", "OddBot", "other", "robots;", "")
CONTENTS = (
    *("noindex", "none", "NoIndex, nofollow", "no&#105;ndex", "noindex&#44;nofollow", "index"),
    *("noarchive\n,\tnoai", "x > y, noindex", "&nbsp;nofollow", "nofollow;noarchive", "a<b"),
)
ATTRIBUTES = (
    *(
        "content=noarchive",
        "name=other",
        "name=robots",
        "property='x'",
        "x",
        "/",
        "=",
        "data-a='>'",
    ),
    *("http-equiv=x", "title='<body>'", "title='<body x'", f'lang="{NOINDEX}"'),
)
TAGS = ("meta", "meta", "meta", "META", "meta/", "metas", "m eta")
AROUND = (
    *("title", "script", "style", "noscript", "template", "textarea", "xmp", "iframe", "noembed"),
    *("noframes", "object", "p", "div", "a", "head", "table><tr><td", "noscript><style", "pre"),
)
COMMENTS = (
    *(
        ("<!--", "-->"),
        ("<!--", "--!>"),
        ("<!-->", ""),
        ("<!--->", ""),
        ("<!--", "--"),
        ("<!", "!>"),
    ),
    *(("<?", "?>"), ("</ ", ">"), ("<!doctype ", ">"), ("<!--<!--", "-->"), ("<!--", "-->-->")),
    *(("<script>//<!--", "--></script>"), ("<script><!--<script>", "</script>--></script>")),
    *(("<script>'<!--'</script>", ""), ("<style><!--</style>", "")),
)
BODIES = (
    *("<!-- <body> -->", "<title><body></title>", "<script>'<body>'</script>", "<body-x>"),
    *('<meta name=description content="<head></head><body>">', "<textarea><body></textarea>"),
    *("<link title='<body>'>", "<noscript><!--<body>--></noscript>"),
)
ODD = (
    *("text", "<link rel=x>", "<base href=/>", "</head>", "</title>", "</script>", "</p>", "</br>"),
    *(
        "<",
        "</",
        "<meta",
        "<meta name=robots",
        "</body>",
        "</html>",
        "<head>",
        "</template>",
        "&lt;",
    ),
)


def attribute(random: Random, name: str, value: str) -> str:
    """Return an attribute, with quotes if it needs them."""
    quote = random.choice(('"', "'", ""))
    if not quote and (not value or any(sign in value for sign in " \t\n\"'<>=")):
        quote = '"'
    equals = random.choice(("=", "=", " = ", "\n=\t"))
    return f"{random.choice((name, name.upper()))}{equals}{quote}{value}{quote}"


def meta(random: Random) -> str:
    """Return an element that is a meta, or nearly so."""
    name, content = random.choice(NAMES), random.choice(CONTENTS)
    parts = [attribute(random, "name", name), attribute(random, "content", content)]
    random.shuffle(parts)
    if random.random() < 0.2:
        parts.insert(random.randrange(3), random.choice(ATTRIBUTES))
    space = random.choice((" ", " ", "\n", "\t ", "/", "\f"))
    end = random.choice((">", ">", " >", "/>", " />", "></meta>", "\n>"))
    return f"<{random.choice(TAGS)}{space}{space.join(parts)}{end}"


def piece(random: Random, depth: int = 0) -> str:
    """Return a part of a head; none that :data:`MISPARSED` lists."""
    kind = random.randrange(12)
    if kind < 5 or depth == 2:
        return meta(random)
    if kind < 7:
        names = random.choice(AROUND).split("><")
        ends = "".join(f"</{name}>" for name in reversed(names))
        inner = piece(random, 2 if "noscript" in names else depth + 1) + meta(random)
        return f"<{'><'.join(names)}>{inner}{random.choice((ends, ends.upper()))}"
    if kind < 9:
        begin, end = random.choice(COMMENTS)
        return begin + meta(random) + end
    return random.choice(ODD if kind < 11 and not depth else BODIES)


def page(random: Random) -> str:
    """Return a page that consists of a head."""
    begin = random.choice(("", "<!doctype html>", "<html>", "<!doctype html><html><head>"))
    pieces = (piece(random) for _ in range(random.randrange(1, 5)))
    return begin + "".join(pieces) + random.choice(("", "</head>", "</head><body>x</body></html>"))


def plain(contents: Sequence[str]) -> str:
    """Return a page with these metas alone."""
    return "".join(f'<meta name=robots content="{html.escape(each)}">' for each in contents)


def test_heads_are_parsed_as_by_jsoup(tmp_path: Path) -> None:
    """Finds the directives of the same metas, except what is listed with a reason."""
    random = Random(1996)
    made = [page(random) for _ in range(PAGES)]
    pages = [*(text for text, *_ in MISPARSED), *made]
    answered = answers(PROGRAM, tmp_path, (f" {encoded(each)}" for each in pages))
    theirs = [
        read((), plain([text for name, text in metas(each) if name in {"robots", CLIENT}]), CLIENT)
        for each in answered
    ]
    for (text, ours, reason), their in zip(MISPARSED, theirs, strict=False):
        found = read((), text, CLIENT)
        assert ("noindex" in found) is ours, reason
        assert found != their, reason
    pairs = zip(made, theirs[len(MISPARSED) :], strict=True)
    assert not [(text, their) for text, their in pairs if read((), text, CLIENT) != their]
    assert 0.2 < sum(map(bool, theirs)) / len(theirs) < 0.9
