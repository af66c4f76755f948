"""First steps of a newcomer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from crawlstream.boot.variables import environment_without_settings
from crawlstream_cli.demo.access_log import read_visits
from crawlstream_cli.demo.files import stored_pages

_TIMEOUT_S = 300


def test_the_demo_crawls_its_site_within_the_rules(tmp_path: Path) -> None:
    """``crawlstream demo`` ends with 0: each page came once, in files too, within the rates."""
    environment = {
        **environment_without_settings(os.environ),
        "CRAWLSTREAM_HOME": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-m", "crawlstream_cli", "demo"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    results = [json.loads(line) for line in Path(summary["results"]).read_text().splitlines()]
    assert summary["pages"] == len({result["url"] for result in results}) > 100
    assert summary["failed"] == 0
    assert "Every page is in the files once." in done.stdout
    assert stored_pages(Path(summary["files"])) == Counter(result["id"] for result in results)
    (log,) = tmp_path.rglob("site-visits.jsonl")
    visits = read_visits(log)
    # Stamps of arrival, not of a loop that does not know it.
    assert visits[-1].mono - visits[0].mono > 1000
