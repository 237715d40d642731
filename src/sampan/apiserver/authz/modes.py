"""The authorizers by their names in --authorization-mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from sampan.apiserver.authz.authorizer import (
    AlwaysAllow,
    AlwaysAllowPaths,
    AlwaysDeny,
    Authorizer,
    PrivilegedGroupAuthorizer,
)
from sampan.apiserver.authz.node import NodeAuthorizer, NodeGraph
from sampan.apiserver.authz.rbac import RbacAuthorizer, RbacIndex
from sampan.apiserver.classic.abac import AbacAuthorizer, AbacPolicy
from sampan.host.clock import Clock, RealClock

if TYPE_CHECKING:
    from sampan.apiserver.authz.webhook import WebhookSettings

ABAC, NODE, RBAC = "ABAC", "Node", "RBAC"
WEBHOOK = "Webhook"
MODES: Final = ("AlwaysAllow", "AlwaysDeny", ABAC, NODE, RBAC, WEBHOOK)
DEFAULT: Final = (NODE, RBAC)
Mode: TypeAlias = "str | WebhookSettings"
"""The name of a mode, or the settings of a webhook."""


def make_authorizers(
    modes: Sequence[Mode],
    index: RbacIndex,
    relations: NodeGraph,
    policies: Sequence[AbacPolicy] = (),
    clock: Clock | None = None,
) -> list[Authorizer]:
    """Return the authorizers of these modes, preceded by the authorizers for public paths and for system:masters."""
    makers: dict[str, Callable[[], Authorizer]] = {
        "AlwaysAllow": AlwaysAllow,
        "AlwaysDeny": AlwaysDeny,
        ABAC: lambda: AbacAuthorizer(policies=policies),
        NODE: lambda: NodeAuthorizer(relations=relations),
        RBAC: lambda: RbacAuthorizer(index=index),
    }
    time = clock or RealClock()
    chosen = [makers[mode]() if isinstance(mode, str) else _webhook(mode, time) for mode in modes]
    return [AlwaysAllowPaths(), PrivilegedGroupAuthorizer(), *chosen]


def _webhook(settings: WebhookSettings, clock: Clock) -> Authorizer:
    from sampan.apiserver.authz.webhook import WebhookAuthorizer

    return WebhookAuthorizer(settings=settings, clock=clock)
