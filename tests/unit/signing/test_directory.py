"""The directory of keys: signed by each of them, whatever serves it."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode, urlsafe_b64decode
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from crawlstream.errors import ConfigError
from crawlstream.signing import directory
from crawlstream.signing.directory import Times
from crawlstream.signing.keys import new_key

AGENT, NOW = "https://bot.example", 1_795_840_000


def test_each_key_proves_that_the_agent_has_it(tmp_path: Path) -> None:
    """Over the authority and the digest of the body, for as many days as were wanted."""
    keys = [new_key(tmp_path / name) for name in ("a", "b")]
    made = directory.made(keys, AGENT, now=NOW, days=30)
    published = {jwk["kid"]: jwk for jwk in json.loads(made.body)["keys"]}
    assert list(published) == [key.keyid for key in keys]
    digest = f"sha-256=:{b64encode(sha256(made.body.encode()).digest()).decode()}:"
    assert made.headers["Content-Digest"] == digest
    inputs = re.findall(r"binding\d+=(\([^)]*\)[^,]*)", made.headers["Signature-Input"])
    proofs = re.findall(r"binding\d+=:([^:]*):", made.headers["Signature"])
    assert len(inputs) == len(proofs) == 2
    for params, proof, jwk in zip(inputs, proofs, published.values(), strict=True):
        assert f'keyid="{jwk["kid"]}"' in params
        assert f"created={NOW};expires={NOW + 30 * 86400};" in params
        base = (
            f'"@authority";req: bot.example\n"content-digest": {digest}\n'
            f'"@signature-params": {params}'
        )
        public = Ed25519PublicKey.from_public_bytes(urlsafe_b64decode(jwk["x"] + "="))
        public.verify(b64decode(proof), base.encode())


def test_a_directory_is_kept_in_a_file_with_the_times_of_its_keys(tmp_path: Path) -> None:
    """A key keeps the time of its publication, and the first one that from which it signs."""
    old, new = (new_key(tmp_path / name) for name in ("old", "new"))
    path = tmp_path / "directory.json"
    before = None
    for keys, now in (([old], 50), ([old, new], 100), ([new, old], 200), ([new], 300)):
        made = directory.made(keys, AGENT, now=now, days=1, before=before)
        directory.write(made, path)
        before = directory.read(path)
        assert before == made
        assert before.times[keys[0].keyid].signs_since == min(now, 200 if keys[0] is new else 50)
    assert before
    assert before.times == {new.keyid: Times(100, 200)}
    assert str(100) not in before.body


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"body": 1, "headers": [], "keys": {}}'])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    """The error names the command that makes a directory."""
    path = tmp_path / "directory.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="signing directory -o"):
        directory.read(path)
