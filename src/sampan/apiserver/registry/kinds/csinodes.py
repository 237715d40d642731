"""CSINode: the CSI drivers on a node."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.types.storage_v1 import CSINode, CSINodeDriver, CSINodeStatus
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.podspec.volumes.sources import validate_csi_driver_name
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy, Strategy
from sampan.apiserver.registry.validation import (
    FieldErrors,
    validate_immutable,
    validate_non_negative,
    validate_qualified_name,
    validate_required,
    validate_unique,
)
from sampan.apiserver.tables.columns import AGE, NAME

_DRIVERS_PATH = "spec.drivers"
_MAX_NODE_ID_LENGTH = 256


class CSINodeStrategy(Strategy):
    return_deleted_object = True
    allow_unconditional_update = False
    columns = (
        NAME,
        Column(
            "Drivers",
            lambda csi_node, now: len(csi_node.spec.drivers or ()),
            type="integer",
            description="Drivers indicates the number of CSI drivers registered on the node",
        ),
        AGE,
    )

    def default(self, obj: CSINode) -> None:
        obj.spec.drivers = obj.spec.drivers or None
        for driver in obj.spec.drivers or ():
            driver.topologyKeys = driver.topologyKeys or None

    def prepare_for_create(self, ctx: Context, obj: CSINode) -> None:
        obj.status = CSINodeStatus()

    def prepare_for_update(self, ctx: Context, obj: CSINode, old: CSINode) -> None:
        obj.status = old.status

    def validate_create(self, ctx: Context, obj: CSINode) -> Iterable[FieldError]:
        return _validate_driver(obj.spec.drivers or ())

    def validate_update(self, ctx: Context, obj: CSINode, old: CSINode) -> Iterable[FieldError]:
        """Yield the errors of an update: for a driver that remains, only `allocatable` may change."""
        yield from self.validate_create(ctx, obj)
        for before in old.spec.drivers or ():
            for driver in obj.spec.drivers or ():
                if driver.name == before.name:
                    yield from validate_immutable(
                        replace(driver, allocatable=None), replace(before, allocatable=None), _DRIVERS_PATH
                    )


def _validate_driver(drivers: Sequence[CSINodeDriver]) -> FieldErrors:
    driver_names: set[str] = set()
    for index, driver in enumerate(drivers):
        path, keys = f"{_DRIVERS_PATH}[{index}]", set[str]()
        yield from validate_csi_driver_name(driver.name, f"{path}.name")
        yield from validate_required(driver.nodeID, f"{path}.nodeID")
        if names.size(driver.nodeID) > _MAX_NODE_ID_LENGTH:
            yield FieldError.invalid(
                f"{path}.nodeID", driver.nodeID, f"must be {_MAX_NODE_ID_LENGTH} characters or less"
            )
        if driver.allocatable is not None and driver.allocatable.count is not None:
            yield from validate_non_negative(driver.allocatable.count, f"{path}.allocatable.count")
        yield from validate_unique(driver.name, driver_names, f"{path}.name")
        for key in driver.topologyKeys or ():
            yield from validate_required(key, path)
            yield from validate_unique(key, keys, path)
            yield from validate_qualified_name(key, path)


class CSINodeStatusStrategy(StatusStrategy):
    keeps_metadata = True


_strategy = CSINodeStrategy()
BEHAVIOR = ResourceBehavior(strategy=_strategy, views={"status": CSINodeStatusStrategy(_strategy)})
