"""``crawlstream signing``: keys of signed requests, and the directory that publishes them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import orjson
import typer

from crawlstream.boot.settings import Settings, load_settings
from crawlstream.errors import ConfigError, CrawlstreamError
from crawlstream.signing import directory
from crawlstream.signing.keys import Key, load_keys, new_key
from crawlstream.signing.signer import DIRECTORY_PATH
from crawlstream_cli.common.console import print_line
from crawlstream_cli.common.times import until
from crawlstream_cli.signing.checks import Checks
from crawlstream_cli.signing.rotation import next_step

signing = typer.Typer(
    help="Make the keys that requests are signed with, and publish them.",
    no_args_is_help=True,
    add_completion=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Default: CRAWLSTREAM_SIGNING_DIRECTORY."),
]


@signing.command("new")
def make_key(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write, PEM.")],
) -> None:
    """Make a key and write it to a new file that only you can read."""
    key = new_key(file)
    print_line(f"keyid: {key.keyid}")
    print_line(f"public key: {orjson.dumps(_jwk(key)).decode()}")
    print_line(
        f"Next: set CRAWLSTREAM_SIGNING_KEYS={file} and CRAWLSTREAM_SIGNATURE_AGENT=https://HOST,"
        " run `crawlstream signing directory`, and publish the file; restart the crawlers last."
    )


@signing.command("show")
def show(as_json: AsJson = False) -> None:
    """Show the keys, the agent, and when the directory has to be signed again."""
    settings = load_settings()
    keys = load_keys(settings.signing_keys)
    found = _published(settings)
    shown = {
        "keys": [key.keyid for key in keys],
        "agent": settings.signature_agent,
        "form": settings.signature_form,
        "directory": f"{settings.signature_agent}{DIRECTORY_PATH}" if keys else "",
        "expires": found.expires if found else None,
    }
    if as_json:
        print_line(orjson.dumps(shown).decode())
        return
    if not keys:
        print_line("Nothing is signed: CRAWLSTREAM_SIGNING_KEYS is empty.")
        return
    for number, key in enumerate(keys):
        print_line(f"key: {key.keyid} ({'published' if number else 'signs'})")
    print_line(f"agent: {settings.signature_agent}, form {settings.signature_form}")
    print_line(f"directory: {shown['directory']}")
    print_line(f"its signatures are valid {until(found.expires) if found else 'no file yet'}")


@signing.command("directory")
def make_directory(
    days: Annotated[
        int, typer.Option(min=1, max=366, metavar="N", help="How long it is valid.")
    ] = 30,
    output: Output = None,
    plain: Annotated[
        Path | None,
        typer.Option(
            "--plain", metavar="DIR", help="Write body and headers apart, for a web server."
        ),
    ] = None,
) -> None:
    """Sign the directory of all keys, and write it to the file that REST serves."""
    settings = load_settings()
    keys = load_keys(settings.signing_keys)
    if not keys:
        raise ConfigError("CRAWLSTREAM_SIGNING_KEYS is empty: there is no key to publish")
    path = _file(settings, output)
    before = directory.read(path) if path.exists() else None
    agent, now = settings.signature_agent, int(time.time())
    made = directory.made(keys, agent, now=now, days=days, before=before)
    directory.write(made, path)
    print_line(f"{path}: {len(keys)} keys, valid {until(made.expires)}")
    if plain is not None:
        directory.write_plain(made, plain)
        print_line(f"{plain}: body and headers for {DIRECTORY_PATH}")


@signing.command("rotate")
def rotate(
    new: Annotated[Path, typer.Argument(metavar="NEW", help="File of the new key.")],
    output: Output = None,
    now: Annotated[
        bool, typer.Option("--now", help="Do not wait: the old key was stolen.")
    ] = False,
) -> None:
    """Show the next step to a new key; exit with 1 while it is too early for it."""
    settings = load_settings()
    (key,) = load_keys([str(new)])
    path = _file(settings, output)
    found = directory.read(path) if path.exists() else None
    listed = [each.keyid for each in load_keys(settings.signing_keys)]
    step = next_step(listed, key.keyid, found)
    if step.not_before > time.time() and not now:
        raise CrawlstreamError(
            f"too early: verifiers may keep the directory of before"
            f" {until(step.not_before)}. Then: {step.sentence}"
        )
    print_line(step.sentence)


@signing.command("check")
def check(
    url: Annotated[
        str, typer.Option("--url", metavar="URL", help="Send one signed request here, too.")
    ] = "",
) -> None:
    """Check keys, clock and the published directory; exit with 1 unless all holds."""
    settings = load_settings()
    if not settings.signing_keys:
        raise ConfigError("CRAWLSTREAM_SIGNING_KEYS is empty: nothing is signed")
    checks = Checks(load_keys(settings.signing_keys), settings.signature_terms)
    checks.directory()
    if url:
        checks.request(url, settings.user_agent)
    for line in [*checks.lines, *(f"warning: {each}" for each in settings.contradictions)]:
        print_line(line)
    if not checks.all_hold:
        raise typer.Exit(1)


def _jwk(key: Key) -> dict[str, str]:
    return {"kty": "OKP", "crv": "Ed25519", "x": key.x}


def _file(settings: Settings, output: Path | None) -> Path:
    if output is None and not settings.signing_directory:
        raise ConfigError("name the directory's file: -o FILE, or CRAWLSTREAM_SIGNING_DIRECTORY")
    return output or Path(settings.signing_directory)


def _published(settings: Settings) -> directory.Directory | None:
    path = Path(settings.signing_directory)
    return directory.read(path) if settings.signing_directory and path.exists() else None
