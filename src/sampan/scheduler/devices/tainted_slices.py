"""Resource slices with the taints of DeviceTaintRules (compare `dynamic-resource-allocation/resourceslice/tracker`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from sampan.api.types.resource_v1 import Device, DeviceTaintRule, ResourceSlice
from sampan.machinery.informer import Informer

Handler = Callable[[Any, Any], None]


def add_rule_taints(resource_slice: ResourceSlice, rules: Iterable[DeviceTaintRule]) -> ResourceSlice:
    """Return the slice with the taints of all rules that select its devices, or the slice itself if there are none."""
    selecting = [rule for rule in rules if selects_pool(rule, resource_slice)]
    if not selecting:
        return resource_slice
    devices = [_taint_device(device, selecting) for device in resource_slice.spec.devices]
    return msgspec.structs.replace(resource_slice, spec=msgspec.structs.replace(resource_slice.spec, devices=devices))


def selects_pool(rule: DeviceTaintRule, resource_slice: ResourceSlice) -> bool:
    """Tell whether the rule may select devices of the slice. A rule without a selector selects no device."""
    selector, spec = rule.spec.deviceSelector, resource_slice.spec
    return (
        selector is not None
        and selector.driver in (None, spec.driver)
        and selector.pool in (None, spec.pool.name)
        and (selector.device is None or any(device.name == selector.device for device in spec.devices))
    )


def _taint_device(device: Device, rules: Sequence[DeviceTaintRule]) -> Device:
    taints = [
        rule.spec.taint
        for rule in rules
        if rule.spec.deviceSelector is not None and rule.spec.deviceSelector.device in (None, device.name)
    ]
    return msgspec.structs.replace(device, taints=[*device.taints, *taints]) if taints else device


class TaintedSlices:
    """Follows slices and rules, and tells its subscriber about changes of the slices with the taints of the rules."""

    def __init__(self, *, slices: Informer[ResourceSlice], rules: Informer[DeviceTaintRule]) -> None:
        self._slices, self._rules = slices, rules.lister
        self._tainted: dict[str, ResourceSlice] = {}
        self._handlers: list[Handler] = []
        rules.subscribe(self._on_rule_changed)
        slices.subscribe(self._on_slice_changed)

    def subscribe(self, handler: Handler) -> None:
        for resource_slice in self._tainted.values():
            handler(None, resource_slice)
        self._handlers.append(handler)

    def _on_slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        before = self._tainted.pop(old.metadata.name, None) if old is not None else None
        if new is not None:
            rules = sorted(self._rules, key=lambda rule: rule.metadata.name)
            new = self._tainted[new.metadata.name] = add_rule_taints(new, rules)
        for handler in self._handlers:
            handler(before, new)

    def _on_rule_changed(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        changes = [rule for rule in (old, new) if rule is not None]
        for resource_slice in list(self._slices.lister):
            if any(selects_pool(rule, resource_slice) for rule in changes):
                self._on_slice_changed(resource_slice, resource_slice)
