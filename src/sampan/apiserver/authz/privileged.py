"""What is allowed whatever the rules of the cluster say."""

from __future__ import annotations

from sampan.apiserver.authz.attributes import Attributes
from sampan.apiserver.authz.decisions import ALLOWED, UNDECIDED, Decision
from sampan.apiserver.call import MASTERS


class Masters:
    """Members of system:masters may do everything."""

    def decide(self, asked: Attributes) -> Decision:
        return ALLOWED if MASTERS in asked.user.groups else UNDECIDED


class OpenPaths:
    """Whoever watches over the server may ask for its health; as oneself, that is."""

    _PATHS = frozenset({"/healthz", "/livez", "/readyz"})

    def decide(self, asked: Attributes) -> Decision:
        is_open = not asked.is_resource and asked.path in self._PATHS
        return ALLOWED if is_open and not asked.verb.startswith("impersonate-on:") else UNDECIDED


__all__ = ["Masters", "OpenPaths"]
