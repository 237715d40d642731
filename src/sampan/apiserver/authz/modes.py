"""The authorizers by their names in --authorization-mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from sampan.api.feature_gates import FeatureGates
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


@dataclass(frozen=True, slots=True)
class NamedMode:
    """A mode with the name that an AuthorizationConfiguration gives to its authorizer."""

    type: str
    name: str


Mode: TypeAlias = "str | NamedMode | WebhookSettings"
"""A mode, or the settings of a webhook."""


def type_of(mode: Mode) -> str:
    """Return the mode as it is written in --authorization-mode."""
    if isinstance(mode, str):
        return mode
    return mode.type if isinstance(mode, NamedMode) else WEBHOOK


def make_authorizers(
    modes: Sequence[Mode],
    index: RbacIndex,
    relations: NodeGraph,
    policies: Sequence[AbacPolicy] = (),
    clock: Clock | None = None,
    *,
    feature_gates: FeatureGates | None = None,
) -> list[Authorizer]:
    """Return the authorizers of these modes, preceded by the authorizers for public paths and for system:masters."""
    gates, time = feature_gates or FeatureGates(), clock or RealClock()
    makers: dict[str, Callable[[str], Authorizer]] = {
        "AlwaysAllow": lambda name: AlwaysAllow(name=name),
        "AlwaysDeny": lambda name: AlwaysDeny(name=name),
        ABAC: lambda name: AbacAuthorizer(policies=policies, name=name),
        NODE: lambda name: NodeAuthorizer(relations=relations, feature_gates=gates, name=name),
        RBAC: lambda name: RbacAuthorizer(index=index, name=name),
    }

    def make(mode: Mode) -> Authorizer:
        if isinstance(mode, str):
            return makers[mode](mode.lower())
        return makers[mode.type](mode.name) if isinstance(mode, NamedMode) else _webhook(mode, time)

    return [AlwaysAllowPaths(), PrivilegedGroupAuthorizer(), *map(make, modes)]


def _webhook(settings: WebhookSettings, clock: Clock) -> Authorizer:
    from sampan.apiserver.authz.webhook import WebhookAuthorizer

    return WebhookAuthorizer(settings=settings, clock=clock)
