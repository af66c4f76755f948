"""Credentials: what is given for one site is sent to no other, and to none without encryption."""

from __future__ import annotations

import pytest

from crawlstream.model.credentials import covers, may_follow, scope_of


@pytest.mark.parametrize(
    ("seed", "url", "goes_along"),
    [
        ("https://example.com/", "https://www.example.com/x", True),
        ("https://www.example.co.uk/", "https://api.example.co.uk:8443/", True),
        ("http://example.com/", "https://example.com/", True),
        ("https://example.com/", "http://example.com/", False),
        ("https://example.com/", "https://example.net/", False),
        ("https://www.foo.co.uk/", "https://www.bar.co.uk/", False),
        ("https://alice.github.io/", "https://attacker.github.io/", False),
        ("https://alice.github.io/", "https://www.alice.github.io/", True),
        ("https://github.io/", "https://attacker.github.io/", False),
        ("https://attacker.github.io/", "https://github.io/", False),
        ("https://shop.s3.amazonaws.com/", "https://evil-bucket.s3.amazonaws.com/", False),
        ("https://me.azurewebsites.net/", "https://evil.azurewebsites.net/", False),
        ("https://a.herokuapp.com/", "https://evil.herokuapp.com/", False),
        ("https://u1.pages.dev/", "https://evil.pages.dev/", False),
        ("https://xn--bcher-kva.de/", "https://www.xn--bcher-kva.de/", True),
        ("http://127.0.0.1/", "http://127.0.0.1:8080/", True),
        ("http://127.0.0.1/", "http://1.127.0.0.1.example/", False),
        ("http://10.0.0.1/", "http://20.0.0.1/", False),
        ("http://[::1]/", "http://[::1]:8080/", True),
        ("http://[::1]/", "http://[::2]/", False),
        ("http://intranet/", "http://intranet/x", True),
        ("http://intranet/", "http://wiki.intranet/", False),
        ("http://co.uk/", "http://foo.co.uk/", False),
    ],
)
def test_secrets_stay_on_the_domain_that_they_were_given_for(
    seed: str,
    url: str,
    goes_along: bool,  # noqa: FBT001
) -> None:
    """The registrable domain, private suffixes counted as such; never from https to http."""
    assert covers(scope_of(seed), url) is goes_along


@pytest.mark.parametrize(
    ("url", "target", "goes_along"),
    [
        ("https://a.example/", "https://a.example/x", True),
        ("http://a.example/", "https://a.example/", True),
        ("https://a.example/", "http://a.example/", False),
        ("https://a.example/", "https://www.a.example/", False),
    ],
)
def test_what_a_redirect_carries_stays_on_its_host(
    url: str,
    target: str,
    goes_along: bool,  # noqa: FBT001
) -> None:
    """Keeps what a redirect carries on its host, and encrypted."""
    assert may_follow(target, url) is goes_along
