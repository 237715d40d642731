"""DeviceClass: a named selection of devices with configuration for their driver."""

from collections.abc import Iterable

from sampan.api.faults import FieldError
from sampan.api.resource_names import is_extended
from sampan.api.types.resource_v1 import DeviceClass, DeviceClassConfiguration
from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.devices.collections import each
from sampan.apiserver.registry.devices.configurations import MOST_CONFIGURATIONS, opaque_faults, selectors_faults
from sampan.apiserver.registry.podspec.formats import Faults
from sampan.apiserver.registry.strategy import Context, Strategy
from sampan.apiserver.tables.columns import AGE, NAME


class DeviceClassStrategy(Strategy):
    returns_deleted = True
    counts_generation = True
    validates_whole = True
    has_expressions = True
    columns = (NAME, AGE)

    def validate_create(self, ctx: Context, obj: DeviceClass) -> Iterable[FieldError]:
        spec = obj.spec
        yield from selectors_faults(spec.selectors, "spec.selectors")
        yield from each(spec.config, MOST_CONFIGURATIONS, _configuration_faults, "spec.config")
        name = spec.extendedResourceName
        if name is not None and not is_extended(name):
            text = "must be a valid extended resource name"
            yield FieldError.invalid("spec.extendedResourceName", name, text)

    def validate_update(self, ctx: Context, obj: DeviceClass, old: DeviceClass) -> Iterable[FieldError]:
        return self.validate_create(ctx, obj)


def _configuration_faults(found: DeviceClassConfiguration, at: str) -> Faults:
    return opaque_faults(found.opaque, at)


BEHAVIOUR = ResourceBehaviour(strategy=DeviceClassStrategy())
