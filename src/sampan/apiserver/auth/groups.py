"""The groups of an authenticated user: its own and system:authenticated."""

from __future__ import annotations

from collections.abc import Iterable

from sampan.apiserver.call import AUTHENTICATED, UNAUTHENTICATED


def known_groups(groups: Iterable[str]) -> tuple[str, ...]:
    own = tuple(groups)
    return own if AUTHENTICATED in own or UNAUTHENTICATED in own else (*own, AUTHENTICATED)
