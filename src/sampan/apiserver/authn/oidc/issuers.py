"""The settings of an OIDC issuer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from sampan.apiserver.authn.oidc.expressions import ClaimExpressions

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512")


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtIssuer:
    url: str
    audiences: Sequence[str]
    """The accepted audiences; a token must have one of them."""
    discovery_url: str = ""
    """The URL of the discovery document, if it is not at its well-known path below `url`."""
    ca_pem: bytes = b""
    """The CA of the issuer's server; empty: the system's CAs."""
    username_claim: str = "sub"
    username_prefix: str = ""
    groups_claim: str = ""
    groups_prefix: str = ""
    uid_claim: str = ""
    required: Mapping[str, str] = field(default_factory=dict)
    """Required claims and their exact values."""
    algorithms: Sequence[str] = ALGORITHMS
    expressions: ClaimExpressions = field(default_factory=ClaimExpressions)

    @property
    def document(self) -> str:
        return self.discovery_url or f"{self.url.rstrip('/')}/.well-known/openid-configuration"


def url_errors(url: str) -> list[str]:
    """Return why a URL is not a valid issuer URL."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        return [str(error)]
    wrong = {
        "URL scheme must be https": parts.scheme != "https",
        "URL must not contain a username or password": parts.username is not None or parts.password is not None,
        "URL must not contain a query": bool(parts.query),
        "URL must not contain a fragment": bool(parts.fragment),
    }
    return [words for words, is_wrong in wrong.items() if is_wrong]
