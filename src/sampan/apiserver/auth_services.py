"""The authentication and authorization state that registry code needs, for reviews and role escalation checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sampan.apiserver.authn.authenticator import UnionTokenAuthenticator
from sampan.apiserver.authz import UnionAuthorizer
from sampan.apiserver.authz.rbac import RbacIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthServices:
    authorizer: UnionAuthorizer
    rules: RbacIndex = field(default_factory=RbacIndex)
    tokens: UnionTokenAuthenticator = field(default_factory=lambda: UnionTokenAuthenticator(()))
    audiences: Sequence[str] = ()
    """The audiences of tokens for this server."""
