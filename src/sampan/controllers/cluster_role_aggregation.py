"""clusterrole-aggregation-controller, which sets the rules of each ClusterRole that has an aggregation rule."""

from collections.abc import Hashable, Iterable
from typing import Any

import msgspec

from sampan.api.selectors import label_selector
from sampan.api.types.rbac_v1 import ClusterRole, PolicyRule
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import InformerFactory


def aggregate_rules(role: ClusterRole, roles: Iterable[ClusterRole]) -> list[PolicyRule]:
    """Return the rules of all selected roles without duplicates, ordered by selector and then by role name."""
    rules: list[PolicyRule] = []
    encoded_rules: set[bytes] = set()
    by_name = sorted(roles, key=lambda other: other.metadata.name)
    for source in role.aggregationRule.clusterRoleSelectors if role.aggregationRule else ():
        selector = label_selector.selector_of(source)
        for other in by_name:
            if other.metadata.name != role.metadata.name and selector.matches(other.metadata.labels):
                encoded = [(msgspec.json.encode(rule), rule) for rule in other.rules or ()]
                rules += [rule for key, rule in encoded if key not in encoded_rules]
                encoded_rules.update(key for key, _ in encoded)
    return rules


class ClusterRoleAggregationController:
    name = "clusterrole-aggregation-controller"

    def __init__(self, *, client: Client, informers: InformerFactory) -> None:
        self._roles = client.for_kind(ClusterRole)
        self._known = informers.for_kind(ClusterRole).lister
        self.watches = (Watch(resource_of(ClusterRole), self._aggregated_role_keys),)

    def _aggregated_role_keys(self, changed: Any) -> Iterable[Hashable]:
        """Return all aggregated roles: any change of a ClusterRole may add rules to one of them or remove some."""
        wholes = {role.metadata.name for role in self._known.list() if role.aggregationRule is not None}
        return wholes | {changed.metadata.name} if changed.aggregationRule is not None else wholes

    async def reconcile(self, key: str) -> None:
        role = self._known.get(key)
        if role is None or role.aggregationRule is None:
            return
        rules = aggregate_rules(role, self._known.list())
        if rules == (role.rules or []):
            return
        changed = copy_of(role)
        changed.rules = rules
        try:
            await self._roles.update(changed)
        except errors.NotFound:
            return
