"""Types of options of a crawl that need several lines."""

from __future__ import annotations

from typing import Annotated

import typer

from crawlstream.model.scope import PageScore
from crawlstream_cli.crawl.budget_texts import bytes_of

DomainBytes = Annotated[
    int | None,
    typer.Option(
        parser=bytes_of,
        metavar="BYTES",
        help="Maximum bytes of a domain: 50M. Then no more of its pages are fetched.",
    ),
]
DomainFailedShare = Annotated[
    float | None,
    typer.Option(
        min=0.05,
        max=1,
        metavar="SHARE",
        help="Fetch no more of a domain at this share of failed pages, from 100 pages on.",
    ),
]

HostBudget = Annotated[
    str | None,
    typer.Option(
        metavar="B,E",
        help=(
            "Pages of a domain that wait in their turn: B, and E for each trusted domain that links"
            " to it; others wait behind all domains: 10,10. Needs seeds on several domains."
        ),
    ),
]
Archive = Annotated[
    bool,
    typer.Option("--archive", help="Keep responses as their sites sent them; -o x.wacz does, too."),
]

Tls = Annotated[
    str | None,
    typer.Option(
        metavar="PROFILE",
        help=(
            "TLS profile of the requests: default, legacy for old servers, chrome, firefox or"
            " safari; see CRAWLSTREAM_TLS_PROFILES."
        ),
    ),
]
Render = Annotated[
    bool,
    typer.Option("--render", help="Have the pages rendered by a browser: see `up --renderers`."),
]
RenderAuto = Annotated[
    bool,
    typer.Option("--render-auto", help="Have only pages rendered by a browser that need one."),
]
Screenshot = Annotated[
    str | None,
    typer.Option(
        metavar="PART",
        help=(
            "Have a browser render the pages, with a screenshot of each: viewport, full, or"
            " element:CSS-SELECTOR."
        ),
    ),
]
Score = Annotated[
    PageScore | None,
    typer.Option(
        help="Fetch pages earlier while they wait: inlinks, once a third link to them is found."
    ),
]
