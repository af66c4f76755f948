#!/usr/bin/env python3
"""Holds a crawl's results and the demo site's log against what the site knows about itself.

Says how many pages were lost, fetched again, and how many windows of a second held more requests
than the rule allows. Exits with 0 if nothing was lost and no window was exceeded, and with the
argument ``once`` only if no page was fetched again, either. ``--host`` and ``--hits`` say where
the site was, and how many requests a second may hold.

``--further`` says how many requests the script of each page sends: then every page must have been
rendered, and have sent all of them. ``--tls`` names the profile that each page must have come by.
"""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from crawlstream_cli.demo.access_log import STAMP_TOLERANCE_S, count_fetches, read_visits
from crawlstream_cli.demo.http_reply import render
from crawlstream_cli.demo.truth import FollowRules, expected_pages
from crawlstream_cli.demo.verdict import Verdict
from crawlstream_cli.demo.web import Web

parser = argparse.ArgumentParser()
parser.add_argument("once", nargs="?", choices=["once"])
parser.add_argument("--host", default="172.31.250.10")
parser.add_argument("--hits", type=int, default=25)
parser.add_argument("--further", type=int, default=0)
parser.add_argument("--tls")
options = parser.parse_args()
web = Web(8000, hosts=1, pages=600, first_host=options.host, slow_pages=5)
web.scheme = "https" if options.tls else "http"
web.further = options.further
records = [json.loads(line) for line in Path("results.jsonl").read_bytes().splitlines()]
requests = read_visits(Path("visits.jsonl"))
visits = [each for each in requests if each.document is None]
further = Counter(each.document for each in requests if each.document is not None)
verdict = Verdict(
    web=web,
    truth=expected_pages(web, FollowRules(maxdepth=3)),
    delivered={record["url"]: record["status_code"] for record in records},
    visits=visits,
    hits=dict.fromkeys(web.hosts, options.hits),
)
times = [visit.mono for visit in visits]
window_ms = 1000 * (1 - STAMP_TOLERANCE_S)
pairs = zip(times, times[options.hits :], strict=False)
exceeded = sum(last - first < window_ms for first, last in pairs)
again = (count_fetches(visits, web.port, web.scheme) - Counter(verdict.truth.fetches)).total()
problems = list(verdict.problems())
if not options.once:
    problems = [each for each in problems if not each.startswith("fetched ")]
scripted = {
    page.path: options.further
    for page in web.pages
    if web.url(page) in verdict.truth.delivered and b"<script>" in render(web, page).body
}
rendered = {
    each["url"].removeprefix(web.origin(options.host)) for each in records if "render" in each
}
if further != Counter(scripted) or scripted.keys() - rendered:
    problems.append(f"of {len(scripted)} pages with a script not all are rendered as they must be")
profiles = Counter(each.get("tls_profile") for each in records)
if profiles.keys() - {options.tls}:
    problems.append(f"TLS profiles: {dict(profiles)}")
facts = [f"{len(records)} results of {len(verdict.truth.delivered)} pages"]
if options.further:
    facts.append(f"{len(rendered)} rendered, with {further.total()} further requests")
if options.tls:
    facts.append(f"{options.tls} {profiles[options.tls]}")
facts += (
    f"{len(visits)} visits",
    f"lost {len(verdict.missing)}",
    f"windows {exceeded}",
    f"fetched again {again}",
)
sys.stdout.write("\n".join([*problems, ", ".join(facts), ""]))
sys.exit(bool(problems))
