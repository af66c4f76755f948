"""States of runs and pages, and the HTTP statuses to which the cluster reacts; listed only here."""

from __future__ import annotations

UNDER_WAY = ("running", "paused", "stopping", "expiring")
ENDED = ("finished", "stopped", "expired")
"""States of a run: it is stopping or expiring until its last page in flight is completed."""

UNFINISHED = ("queued", "delayed", "held")
"""States of a page in the frontier that has not ended."""
PAGE_ENDS = ("done", "failed", "redirected", "skipped", "stopped", "expired")
"""Ends of a page; the ledger counts each page in one of them."""

REFUSALS = frozenset({429, 503})
"""Statuses by which a site asks for fewer requests: it is left alone for some time
(``includes/throttle.lua``), whatever page was requested."""
ROUTE_REFUSALS = REFUSALS | {403, 407}
"""Statuses after which a proxy rests for the site; the request is not retried through another."""
GATEWAY_ERRORS = ROUTE_REFUSALS | {502, 504}
"""Statuses with which the gateway of a browser answers in place of the site."""
RETRIED = REFUSALS | {408, 500, 502, 504, 522, 524}
"""Statuses that are retried before they count as the page's response."""
