"""Authorizers of requests that are always allowed."""

from __future__ import annotations

from sampan.apiserver.authz.attributes import Attributes
from sampan.apiserver.authz.decisions import ALLOWED, UNDECIDED, Decision
from sampan.apiserver.call import MASTERS


class Masters:
    """Allows everything to members of system:masters."""

    def decide(self, asked: Attributes) -> Decision:
        return ALLOWED if MASTERS in asked.user.groups else UNDECIDED


class OpenPaths:
    """Allows everybody to read the health checks, but not while impersonating."""

    _PATHS = frozenset({"/healthz", "/livez", "/readyz"})

    def decide(self, asked: Attributes) -> Decision:
        is_open = not asked.is_resource and asked.path in self._PATHS
        return ALLOWED if is_open and not asked.verb.startswith("impersonate-on:") else UNDECIDED
