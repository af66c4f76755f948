"""Settings of signed requests (Web Bot Auth)."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_settings import NoDecode

from crawlstream.boot.sections.section import Section, check_url, new, parts
from crawlstream.signing.signer import Cover, Form, Terms


def _listed(value: Any) -> Any:
    return parts(value)


_List = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_listed)]
_Covers = Annotated[tuple[Cover, ...], NoDecode, BeforeValidator(_listed)]


class SigningSettings(Section):
    """Signed requests: keys, and what a signature says."""

    signing_keys: _List = Field((), validation_alias=new("SIGNING_KEYS"))
    """Files of the private keys that crawlers sign their requests with, comma-separated. The first
    one signs; the directory publishes all. Empty: nothing is signed."""
    signature_agent: str = Field("", validation_alias=new("SIGNATURE_AGENT"))
    """Origin that publishes the keys, ``https://host[:port]``. Required with keys."""
    signature_form: Form = Field("string", validation_alias=new("SIGNATURE_FORM"))
    """Spelling of the Signature-Agent header: `string` (what most verifiers take), `origin` or
    `url` (newer drafts)."""
    signature_lifetime: int = Field(60, validation_alias=new("SIGNATURE_LIFETIME"), ge=30, le=300)
    """Seconds for which a signature is valid."""
    signature_backdate: int = Field(5, validation_alias=new("SIGNATURE_BACKDATE"), ge=0, le=30)
    """Seconds by which a signature is dated back, because verifiers whose clock is behind refuse
    signatures of the future."""
    signature_nonce: bool = Field(default=True, validation_alias=new("SIGNATURE_NONCE"))
    """Add a random value to each signature, which makes it different from all others."""
    signature_covers: _Covers = Field((), validation_alias=new("SIGNATURE_COVERS"))
    """Components that a signature covers besides host and agent: `@method`, `@path`, by commas.
    This narrows what a listener on plain http can do with it."""
    signing_directory: str = Field("", validation_alias=new("SIGNING_DIRECTORY"))
    """File of the directory of keys that REST serves at
    ``/.well-known/http-message-signatures-directory``. Empty: REST serves none."""

    @model_validator(mode="after")
    def _check_agent(self) -> Self:
        if self.signature_agent:
            url = check_url("CRAWLSTREAM_SIGNATURE_AGENT", self.signature_agent, ("https",))
            if url.path or url.query or url.fragment or url.username is not None:
                raise ValueError(
                    "CRAWLSTREAM_SIGNATURE_AGENT: must be https://host[:port], without a path"
                )
        elif self.signing_keys:
            raise ValueError(
                "CRAWLSTREAM_SIGNATURE_AGENT: needed with CRAWLSTREAM_SIGNING_KEYS, it is the"
                " origin that publishes the keys"
            )
        return self

    @property
    def signature_terms(self) -> Terms:
        """Parameters of a signature that are the same for all requests."""
        return Terms(
            agent=self.signature_agent,
            form=self.signature_form,
            lifetime_s=self.signature_lifetime,
            backdate_s=self.signature_backdate,
            has_nonce=self.signature_nonce,
            covers=self.signature_covers,
        )
