"""ComponentStatus: the health of the control plane components.

Nothing is stored: each request runs the health checks. Controller manager and scheduler are in this process, or are
asked at their usual ports on this machine, as kube-apiserver does.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Mapping
from functools import cache
from functools import partial as bound
from typing import TYPE_CHECKING

from sampan.api.codec import json
from sampan.api.semantics.conditions import find_condition
from sampan.api.types.core_v1 import ComponentCondition, ComponentStatus, ComponentStatusList
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.handlers import Handlers
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Column, Strategy
from sampan.apiserver.request import options
from sampan.apiserver.request.negotiation import TABLE
from sampan.apiserver.response import json_bytes
from sampan.apiserver.response.responses import ObjectResponse, ValueResponse
from sampan.apiserver.tables.columns import NAME
from sampan.apiserver.tables.table_writer import TableWriter, include_of
from sampan.machinery import errors

if TYPE_CHECKING:
    from sampan.apiserver.endpoints import ApiEndpoints, ComponentCheck
    from sampan.apiserver.request.call import Call
    from sampan.apiserver.response.responses import ApiResponse
    from sampan.storage.cacher.selection import ObjectSelection

STORE = "etcd-0"
_PORTS = {"controller-manager": 10257, "scheduler": 10259}
_HEALTHY = "Healthy"
_TIMEOUT_S = 2.0


async def serve(endpoints: ApiEndpoints, call: Call) -> ApiResponse:
    if call.resource is None:
        raise ValueError("the request has no resource")
    probes = _probes(endpoints)
    if call.verb == "get":
        if call.name not in probes:
            raise errors.not_found("componentstatus", call.name)
        component_status = await _status(call.name, probes[call.name])
        return ObjectResponse(call.resource, json.encode(component_status), obj=component_status)
    selection = await endpoints.read_query(call, options.selection_of)
    statuses = await asyncio.gather(*(_status(name, probe) for name, probe in sorted(probes.items())))
    return _list(endpoints, call, [status for status in statuses if _matches(status, selection)])


def _probes(endpoints: ApiEndpoints) -> Mapping[str, ComponentCheck]:
    async def store() -> None:
        await endpoints.registry.backend.current_revision()

    remote = {name: bound(_probe_port, port) for name, port in _PORTS.items()}
    return {STORE: store, **remote, **endpoints.component_checks.by_name()}


class ProbeFailure(Exception):
    """A component does not respond, or is not healthy."""


async def _probe_port(port: int) -> None:
    """Raise ProbeFailure unless the component at a port of this machine is healthy. Its certificate is not verified."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=_make_unverified_context())
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        url_text = f'Get "https://127.0.0.1:{port}/healthz": dial tcp 127.0.0.1:{port}'
        raise ProbeFailure(f"{url_text}: connect: {reason}") from error
    try:
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        status = (await reader.readline()).split()[1:2]
    finally:
        writer.close()
    if status != [b"200"]:
        raise ProbeFailure(f"HTTP probe failed with statuscode: {b''.join(status).decode()}")


@cache
def _make_unverified_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def _status(name: str, probe: ComponentCheck) -> ComponentStatus:
    condition = ComponentCondition(type=_HEALTHY, status="True", message="ok")
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            await probe()
    except ProbeFailure as failure:
        condition = ComponentCondition(type=_HEALTHY, status="False", message=str(failure))
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
    if call.output_format.as_kind:
        json_bytes.check_partial_kind(call.output_format, call.resource, is_list=True)
        title = {"kind": call.output_format.as_kind, "apiVersion": call.output_format.api_version}
        parts = [
            json.read_any(json_bytes.partial_object(json.encode(status), call.output_format)) for status in statuses
        ]
        return ValueResponse({**title, "metadata": {}, "items": parts or None})
    listed = ComponentStatusList(items=statuses)
    return ValueResponse(json.read_any(json.encode(listed)))


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


BEHAVIOR = ResourceBehavior(
    strategy=ComponentStatusStrategy(),
    deprecation="v1 ComponentStatus is deprecated in v1.19+",
)
HANDLERS: Handlers = {"": serve}
