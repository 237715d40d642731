"""DeviceClass: a named selection of devices with configuration for their driver."""

from collections.abc import Iterable

from sampan.api.field_errors import FieldError
from sampan.api.types.resource_v1 import DeviceClass, DeviceClassConfiguration
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.devices.claim_spec import (
    MAX_CONFIGURATIONS,
    default_configurations,
    validate_opaque_configuration,
    validate_selectors,
)
from sampan.apiserver.registry.devices.names import validate_items
from sampan.apiserver.registry.strategy import Context, Strategy
from sampan.apiserver.registry.validation import FieldErrors
from sampan.apiserver.tables.columns import AGE, NAME


class DeviceClassStrategy(Strategy):
    return_deleted_object = True
    counts_generation = True
    has_name_tag = True
    has_expressions = True
    columns = (NAME, AGE)

    def default(self, obj: DeviceClass) -> None:
        default_configurations(obj.spec.config)

    def validate_create(self, ctx: Context, obj: DeviceClass) -> Iterable[FieldError]:
        spec = obj.spec
        yield from validate_selectors(spec.selectors, "spec.selectors")
        yield from validate_items(spec.config, MAX_CONFIGURATIONS, _validate_configuration, "spec.config")

    def validate_update(self, ctx: Context, obj: DeviceClass, old: DeviceClass) -> Iterable[FieldError]:
        return self.validate_create(ctx, obj)


def _validate_configuration(configuration: DeviceClassConfiguration, path: str) -> FieldErrors:
    return validate_opaque_configuration(configuration.opaque, path)


BEHAVIOR = ResourceBehavior(strategy=DeviceClassStrategy())
