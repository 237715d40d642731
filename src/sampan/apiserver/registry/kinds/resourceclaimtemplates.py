"""ResourceClaimTemplate: the template of resource claims that are created for each pod."""

from collections.abc import Iterable

from sampan.api.faults import FieldError
from sampan.api.types.resource_v1 import ResourceClaimTemplate
from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.devices.requests import claim_faults, default_claim
from sampan.apiserver.registry.kinds.resourceclaims import admin_faults
from sampan.apiserver.registry.podspec.claims import template_metadata_faults
from sampan.apiserver.registry.podspec.formats import Faults, fixed
from sampan.apiserver.registry.strategy import Context, Strategy
from sampan.apiserver.tables.columns import AGE, NAME


class ResourceClaimTemplateStrategy(Strategy):
    returns_deleted = True
    validates_whole = True
    has_expressions = True
    columns = (NAME, AGE)

    def default(self, obj: ResourceClaimTemplate) -> None:
        default_claim(obj.spec.spec.devices)

    def validate_create(self, ctx: Context, obj: ResourceClaimTemplate) -> Iterable[FieldError]:
        yield from admin_faults(ctx, obj.spec.spec.devices.requests or ())
        yield from _faults(obj)

    def validate_update(
        self, ctx: Context, obj: ResourceClaimTemplate, old: ResourceClaimTemplate
    ) -> Iterable[FieldError]:
        yield from _faults(obj)
        yield from fixed(obj.spec, old.spec, "spec")


def _faults(template: ResourceClaimTemplate) -> Faults:
    yield from template_metadata_faults(template.spec.metadata, "spec.metadata")
    yield from claim_faults(template.spec.spec.devices, "spec.spec.devices")


BEHAVIOUR = ResourceBehaviour(strategy=ResourceClaimTemplateStrategy())
