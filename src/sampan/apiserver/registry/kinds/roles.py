"""Role: permissions in a namespace."""

from collections.abc import Iterable

from sampan.api.field_errors import FieldError
from sampan.api.types.rbac_v1 import Role
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.rbac_rules import RbacStrategy, validate_policy_rules
from sampan.apiserver.registry.strategy import Context


class RoleStrategy(RbacStrategy):
    def default(self, obj: Role) -> None:
        obj.rules = obj.rules or None

    def validate_create(self, ctx: Context, obj: Role) -> Iterable[FieldError]:
        return validate_policy_rules(obj.rules, is_namespaced=True)

    def validate_update(self, ctx: Context, obj: Role, old: Role) -> Iterable[FieldError]:
        return self.validate_create(ctx, obj)


BEHAVIOR = ResourceBehavior(strategy=RoleStrategy())
