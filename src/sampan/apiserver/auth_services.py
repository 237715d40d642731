"""The authentication and authorization state that registry code needs, for reviews and role escalation checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sampan.apiserver.authn.authenticator import Tokens
from sampan.apiserver.authz import Chain
from sampan.apiserver.authz.rbac import RbacIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    authorizer: Chain
    rules: RbacIndex = field(default_factory=RbacIndex)
    tokens: Tokens = field(default_factory=lambda: Tokens(()))
    audiences: Sequence[str] = ()
    """The audiences of tokens for this server."""
