"""Bugs on purpose in the ways through proxies; ``test_planted.py`` plants them."""

from __future__ import annotations

from mutation.bug import Bug

_WAYS = "integration/egress/test_proxies.py::"
_FAULTS = "integration/egress/test_faults.py::"
_GATEWAY = "integration/egress/test_gateway.py::"
_TLS = "integration/egress/test_tls_profiles.py::"
_BROWSERS = "integration/egress/test_browser_tls.py::"
_HTTP_2 = "integration/egress/test_http2.py::"

EGRESS_BUGS = {
    "a page of a pool that there is not leaves directly": Bug(
        module="crawling.egress.routes",
        right="        if pool is None or pool.disabled:\n",
        wrong="        if pool is None:\n            return None\n        if pool.disabled:\n",
        test=_FAULTS + "never_leaves_past_it",
    ),
    "a new worker takes no pools for granted": Bug(
        module="crawling.egress.routes",
        right="                await self.known.look()\n",
        wrong="                pass\n",
        test=_FAULTS + "asked_for_first",
    ),
    "the environment lets pages past their pool": Bug(
        module="crawling.client.proxied",
        right='    curl.setopt(pycurl.NOPROXY, "")\n',
        wrong="",
        test=_WAYS + "environment",
    ),
    "a proxy may be asked for itself": Bug(
        module="crawling.egress.routes",
        right="if (canonical_host(host), port) in self._places:",
        wrong="if False:",
        test=_WAYS + "target_inside",
        red_by=("PathFailed",),  # the proxy was used
    ),
    "the head of a tunnel is taken for the site's": Bug(
        module="crawling.client.proxied",
        right="        if self.is_paid:\n            return super().on_head(line)\n",
        wrong="        return super().on_head(line)\n",
        test=_WAYS + "told_the_name",
    ),
    "a proxy's failure is the page's": Bug(
        module="crawling.client.attempts",
        right="if trouble.blame.is_proxys:",
        wrong="if False:",
        test=_FAULTS + "surely_its_own",
        red_by=("PathFailed",),  # the page has lost an attempt
    ),
    "all sessions share their connections": Bug(
        module="crawling.client.line",
        right="key = route.proxy, route.credentials, route.pool.plain, route.pool.dns",
        wrong="key = route.proxy.host, route.pool.plain",
        test=_WAYS + "sessions",
    ),
    "a proxy has as many requests as there are": Bug(
        module="crawling.egress.limits",
        right="return book.busy[proxy.id] < share",
        wrong="return True",
        test="unit/crawler/egress/test_limits.py::has_a_place",
    ),
    "whoever knows a name gets out by the gateway": Bug(
        module="crawling.gateway.gateway",
        right="if owner is None or not secrets.compare_digest(",
        wrong="if owner is None or secrets is None and not secrets.compare_digest(",
        test=_GATEWAY + "nobody_gets_out",
    ),
    "a process that was frozen goes on sending": Bug(
        module="crawling.gateway.gateway",
        right="if monotonic() - self._ticked_at > LONGEST_GAP_S:",
        wrong="if False:",
        test=_GATEWAY + "right_to_send",
        red_by=("Failed",),  # the site has answered
    ),
    "the gateway is a target of its own": Bug(
        module="crawling.gateway.dialer",
        right="if target[1] == self.own_port and",
        wrong="if False and",
        test=_GATEWAY + "targets_inside",
    ),
    "a refusal moves a site on to the next TLS profile": Bug(
        module="crawling.client.profiled",
        right="            return await self._client_for(profile).fetch(request, page)\n",
        wrong=(
            "            answer = await self._client_for(profile).fetch(request, page)\n"
            "            if answer.status in {403, 429, 503}:\n"
            "                await self._tls.failed(page, pool, profile)\n"
            "            return answer\n"
        ),
        test=_TLS + "no_answer",
    ),
    "a connection of HTTP/2 on which a page was given up is used again": Bug(
        module="crawling.tls.multi",
        right="                curl.spoil()\n",
        wrong="                pass\n",
        test=_HTTP_2 + "no_room",
    ),
    "what a site says by HTTP/2 is its proxy's fault": Bug(
        module="crawling.client.proxied",
        right="            is_sites = number in HTTP_2\n",
        wrong="            is_sites = False\n",
        test=_HTTP_2 + "proxys_fault",
    ),
    "the greeting of a browser brings its headers with it": Bug(
        module="crawling.tls.handle",
        right="        with_headers = 0\n",
        wrong="        with_headers = 1\n",
        test=_BROWSERS + "requests_are_ours",
    ),
    "a signature names the port that its scheme implies": Bug(
        module="crawlstream.signing.signer",
        right='    return host.removesuffix(_DEFAULT_PORTS.get(scheme, " ")).removesuffix(":")\n',
        wrong="    return host\n",
        test="unit/signing/test_signer.py::authority_is_the_host",
    ),
    "a signature is kept for the next request": Bug(
        module="crawling.egress.signatures",
        right="        return self._signer.headers(url, method, price)\n",
        wrong=(
            '        return vars(self).setdefault("kept",'
            " self._signer.headers(url, method, price))\n"
        ),
        test="integration/egress/test_signed.py::tunnel",
        red_by=("InvalidSignature",),  # the verifier knows the nonce
    ),
    "the auditor takes any key that was ever published": Bug(
        module="crawlstream_chaos.laws.signatures",
        right="        verifier.keys = known[-1].keys if known else {}\n",
        wrong="        verifier.keys = dict(p for e in facts.published for p in e.keys.items())\n",
        test="unit/signing/test_signed_law.py::altered_request",
        red_by=("ValueError",),  # nothing to unpack
    ),
}
