"""ComponentStatus: the health of the control plane components that this server knows.

Nothing is stored: each request runs the health checks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial as bound
from typing import TYPE_CHECKING, Any

from sampan.api.codec import json
from sampan.api.semantics.conditions import find_condition
from sampan.api.types.core_v1 import ComponentCondition, ComponentStatus
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.strategy import Column, Strategy
from sampan.apiserver.request import options
from sampan.apiserver.request.negotiation import TABLE
from sampan.apiserver.response import json_bytes
from sampan.apiserver.response.responses import ObjectResponse, ValueResponse
from sampan.apiserver.tables.columns import NAME
from sampan.apiserver.tables.table import TableWriter, include_of
from sampan.machinery import errors

if TYPE_CHECKING:
    from sampan.apiserver.endpoints import ApiEndpoints
    from sampan.apiserver.registry.registry import Registry
    from sampan.apiserver.request.call import Call
    from sampan.apiserver.response.responses import ApiResponse
    from sampan.storage.cacher.selection import ObjectSelection

Probe = Callable[[], Awaitable[None]]
"""A health check, which raises what is wrong."""

STORE = "etcd-0"
_HEALTHY = "Healthy"
_TIMEOUT_S = 2.0


async def serve(endpoints: ApiEndpoints, call: Call) -> ApiResponse:
    if call.resource is None:
        raise ValueError("the request has no resource")
    probes = _probes(endpoints.registry)
    if call.verb == "get":
        if call.name not in probes:
            raise errors.not_found("componentstatus", call.name)
        component_status = await _status(call.name, probes[call.name])
        return ObjectResponse(call.resource, json.encode(component_status), obj=component_status)
    selection = options.selection_of(call)
    statuses = await asyncio.gather(*(_status(name, probe) for name, probe in sorted(probes.items())))
    return _list(endpoints, call, [status for status in statuses if _matches(status, selection)])


def _probes(registry: Registry) -> Mapping[str, Probe]:
    async def store() -> None:
        await registry.backend.current_revision()

    return {STORE: store, **registry.components}


async def _status(name: str, probe: Probe) -> ComponentStatus:
    condition = ComponentCondition(type=_HEALTHY, status="True", message="ok")
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            await probe()
    except Exception as error:  # any error of a component is what its status reports
        condition = ComponentCondition(type=_HEALTHY, status="False", error=str(error) or type(error).__name__)
    return ComponentStatus(metadata=ObjectMeta(name=name), conditions=[condition])


def _matches(status: ComponentStatus, selection: ObjectSelection) -> bool:
    if selection.labels is not None and not selection.labels.matches(status.metadata.labels):
        return False
    fields = {"metadata.name": status.metadata.name}
    return all(term.matches(fields) for term in selection.fields)


def _list(endpoints: ApiEndpoints, call: Call, statuses: list[ComponentStatus]) -> ValueResponse:
    assert call.resource is not None
    if call.output_format.as_kind == TABLE:
        writer = TableWriter(
            columns=COLUMNS,
            kind=call.resource.gvk,
            output_format=call.output_format,
            include=include_of(call),
            now=endpoints.registry.clock.now(),
        )
        rows = [writer.row(status, bound(json.encode, status)) for status in statuses]
        return ValueResponse(json.read_any(writer.table({}, rows)))
    items: list[Any] = [json.to_value(status) for status in statuses]
    if call.output_format.as_kind:
        json_bytes.check_partial_kind(call.output_format, call.resource, is_list=True)
        title = {"kind": call.output_format.as_kind, "apiVersion": call.output_format.api_version}
        parts = [
            json.read_any(json_bytes.partial_object(json.encode(status), call.output_format)) for status in statuses
        ]
        return ValueResponse({**title, "metadata": {}, "items": parts or None})
    return ValueResponse({"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": items})


# -- table columns -----------------------------------------------------------------------------------------------------


def _condition(status: ComponentStatus) -> ComponentCondition | None:
    return find_condition(status.conditions, _HEALTHY)


def _word(status: ComponentStatus, now: float) -> str:
    condition = _condition(status)
    if condition is None:
        return "Unknown"
    return _HEALTHY if condition.status == "True" else "Unhealthy"


def _part(name: str) -> Callable[[ComponentStatus, float], str]:
    return lambda status, now: getattr(_condition(status), name, "")


COLUMNS = (
    NAME,
    Column("Status", _word, description="Status of the component conditions"),
    Column("Message", _part("message"), description="Message of the component conditions"),
    Column("Error", _part("error"), description="Error of the component conditions"),
)


class ComponentStatusStrategy(Strategy):
    columns = COLUMNS


BEHAVIOUR = ResourceBehaviour(
    strategy=ComponentStatusStrategy(),
    handlers={"": serve},
    deprecation="v1 ComponentStatus is deprecated in v1.19+",
)
