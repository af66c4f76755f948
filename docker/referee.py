#!/usr/bin/env python3
"""Holds a crawl's results and the demo site's log against what the site knows about itself."""

import json
import sys
from pathlib import Path

from crawlstream_cli.demo.truth import Rules, expected_pages
from crawlstream_cli.demo.verdict import Verdict
from crawlstream_cli.demo.visits import read_visits
from crawlstream_cli.demo.web import Web

web = Web(8000, hosts=1, pages=600, first_host="172.31.250.10", slow_pages=5)
lines = Path("results.jsonl").read_bytes().splitlines()
verdict = Verdict(
    web=web,
    truth=expected_pages(web, Rules(maxdepth=3)),
    delivered={record["url"]: record["status_code"] for record in map(json.loads, lines)},
    visits=read_visits(Path("visits.jsonl")),
    hits=dict.fromkeys(web.hosts, 25),
)
problems = list(verdict.problems())
facts = (
    f"{len(lines)} results of {len(verdict.truth.delivered)} pages",
    f"{len(verdict.visits)} visits",
    f"{len(problems)} problems",
)
sys.stdout.write("\n".join([*problems, ", ".join(facts), ""]))
sys.exit(bool(problems))
