"""The devices of the cluster and their allocations: one instance for all profiles of a scheduler, which share them."""

from __future__ import annotations

from sampan.api.types.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from sampan.machinery.informer import by_owner
from sampan.scheduler.devices.classes import ServingClasses
from sampan.scheduler.devices.ledger import Ledger
from sampan.scheduler.devices.stock import Stock
from sampan.scheduler.devices.views import Views
from sampan.scheduler.framework.contract import Handle, Resource
from sampan.scheduler.reports import followed


class Inventory:
    def __init__(self, handle: Handle) -> None:
        self.claims = followed(handle, ResourceClaim, Resource.RESOURCE_CLAIM)
        self.claims.lister.add_index(by_owner)
        classes = followed(handle, DeviceClass, Resource.DEVICE_CLASS)
        self.classes = classes.lister
        self.serving = ServingClasses(classes, on_change=handle.table.serve_by_devices)
        self.ledger = Ledger(self.claims)
        slices = followed(handle, ResourceSlice, Resource.RESOURCE_SLICE)
        self.views = Views(table=handle.table, stock=Stock(slices))


def inventory_of(handle: Handle) -> Inventory:
    if Inventory not in handle.shared:
        handle.shared[Inventory] = Inventory(handle)
    inventory: Inventory = handle.shared[Inventory]
    return inventory
