"""ResourceClaimTemplate: the template of resource claims that are created for each pod."""

from collections.abc import Iterable

from sampan.api.field_errors import FieldError
from sampan.api.types.resource_v1 import ResourceClaimTemplate
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.devices.claim_spec import default_claim, validate_claim_spec
from sampan.apiserver.registry.kinds.resourceclaims import validate_admin_access
from sampan.apiserver.registry.podspec.volumes.volume_claims import validate_template_metadata
from sampan.apiserver.registry.strategy import Context, Strategy
from sampan.apiserver.registry.validation import FieldErrors, validate_immutable
from sampan.apiserver.tables.columns import AGE, NAME


class ResourceClaimTemplateStrategy(Strategy):
    return_deleted_object = True
    has_expressions = True
    columns = (NAME, AGE)

    def default(self, obj: ResourceClaimTemplate) -> None:
        default_claim(obj.spec.spec.devices)

    def validate_create(self, ctx: Context, obj: ResourceClaimTemplate) -> Iterable[FieldError]:
        yield from validate_admin_access(ctx, obj.spec.spec.devices.requests or ())
        yield from _validate_template(obj)

    def validate_update(
        self, ctx: Context, obj: ResourceClaimTemplate, old: ResourceClaimTemplate
    ) -> Iterable[FieldError]:
        yield from _validate_template(obj)
        yield from validate_immutable(obj.spec, old.spec, "spec")


def _validate_template(template: ResourceClaimTemplate) -> FieldErrors:
    yield from validate_template_metadata(template.spec.metadata, "spec.metadata")
    yield from validate_claim_spec(template.spec.spec.devices, "spec.spec.devices")


BEHAVIOR = ResourceBehavior(strategy=ResourceClaimTemplateStrategy())
