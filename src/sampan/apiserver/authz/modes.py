"""The authorizers by the names that --authorization-mode has for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sampan.apiserver.authz.abac import AbacAuthorizer, AbacPolicy
from sampan.apiserver.authz.always import AlwaysAllow, AlwaysDeny
from sampan.apiserver.authz.chain import Chain
from sampan.apiserver.authz.decisions import Authorizer
from sampan.apiserver.authz.node import NodeAuthorizer, NodeRelations
from sampan.apiserver.authz.privileged import Masters, OpenPaths
from sampan.apiserver.authz.rbac import RbacAuthorizer, RbacIndex

ABAC, NODE, RBAC = "ABAC", "Node", "RBAC"
MODES: Final = ("AlwaysAllow", "AlwaysDeny", ABAC, NODE, RBAC)
DEFAULT: Final = (NODE, RBAC)


def authorizers(
    modes: Sequence[str], index: RbacIndex, relations: NodeRelations, policies: Sequence[AbacPolicy] = ()
) -> Chain:
    """The chain of these modes; members of system:masters and questions for health do not come to them."""
    makers: dict[str, Callable[[], Authorizer]] = {
        "AlwaysAllow": AlwaysAllow,
        "AlwaysDeny": AlwaysDeny,
        ABAC: lambda: AbacAuthorizer(policies=policies),
        NODE: lambda: NodeAuthorizer(relations=relations),
        RBAC: lambda: RbacAuthorizer(index=index),
    }
    return Chain(OpenPaths(), Masters(), *(makers[mode]() for mode in modes))


__all__ = ["ABAC", "DEFAULT", "MODES", "authorizers"]
