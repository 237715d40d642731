"""ClusterRole: permissions in the whole cluster. An aggregation rule adds the rules of the roles that it selects."""

from collections.abc import Iterable

from sampan.api.field_errors import FieldError
from sampan.api.selectors.label_selector import selector_errors
from sampan.api.types.rbac_v1 import ClusterRole
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.rbac_rules import RbacStrategy, validate_policy_rules
from sampan.apiserver.registry.strategy import Context
from sampan.apiserver.registry.validation import FieldErrors

_SELECTORS = "aggregationRule.clusterRoleSelectors"


class ClusterRoleStrategy(RbacStrategy):
    def default(self, obj: ClusterRole) -> None:
        obj.rules = obj.rules or None

    def validate_create(self, ctx: Context, obj: ClusterRole) -> Iterable[FieldError]:
        return _validate_cluster_role(obj)

    def validate_update(self, ctx: Context, obj: ClusterRole, old: ClusterRole) -> Iterable[FieldError]:
        selectors = old.aggregationRule.clusterRoleSelectors if old.aggregationRule is not None else ()
        allow_bad_values = any(selector_errors(selector, "") for selector in selectors)
        return _validate_cluster_role(obj, allow_bad_values=allow_bad_values)


def _validate_cluster_role(role: ClusterRole, *, allow_bad_values: bool = False) -> FieldErrors:
    yield from validate_policy_rules(role.rules, is_namespaced=False)
    if role.aggregationRule is None:
        return
    selectors = role.aggregationRule.clusterRoleSelectors
    if not selectors:
        text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        yield FieldError.required(_SELECTORS, text)
    for index, selector in enumerate(selectors):
        path = f"{_SELECTORS}[{index}]"
        yield from selector_errors(selector, path, allow_bad_values=allow_bad_values)
        if selector_errors(selector, path):
            yield FieldError.invalid(path, None, "invalid label selector.")


BEHAVIOR = ResourceBehavior(strategy=ClusterRoleStrategy())
