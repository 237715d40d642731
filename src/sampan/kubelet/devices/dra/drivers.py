"""Registered drivers of dynamic resources and the calls to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sampan.kubelet.plugin_registry import PluginFault, calls
from sampan.kubelet.plugin_registry.calls import Message

if TYPE_CHECKING:
    from sampan.machinery.proto import Schema

_HERE = Path(__file__).parent
SERVICES = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
_TIMEOUT_S = 45.0


@cache
def proto(service: str = SERVICES[0]) -> Schema:
    """Return the messages of this version of the API."""
    if service == SERVICES[0]:
        return calls.read(_HERE / "dra.proto")
    from sampan.machinery.proto import Schema

    text = (_HERE / "dra.proto").read_text().replace("apis.dra.v1;", "apis.dra.v1beta1;")
    return Schema(text, name="dra_v1beta1.proto")


class ClaimRef(NamedTuple):
    namespace: str
    uid: str
    name: str


class Driver(NamedTuple):
    name: str
    endpoint: str
    service: str

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, Message]:
        """Prepare the claims. Return the results by claim UID."""
        answer = await self._call("Prepare", claims)
        return dict(answer.claims)

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, Message]:
        answer = await self._call("Unprepare", claims)
        return dict(answer.claims)

    async def _call(self, what: str, claims: Sequence[ClaimRef]) -> Message:
        schema = proto(self.service)
        name = f"Node{what}Resources"
        named = [schema.Claim(namespace=claim.namespace, uid=claim.uid, name=claim.name) for claim in claims]
        request = getattr(schema, f"{name}Request")(claims=named)
        return await calls.call(self.endpoint, schema, "DRAPlugin", name, request, timeout_s=_TIMEOUT_S)


def chosen_service(name: str, endpoint: str, versions: Sequence[str]) -> str:
    """Return the first supported version. Raise PluginFault if there is none."""
    start = f"invalid supported gRPC versions of DRA driver plugin {name} at endpoint {endpoint}:"
    if not versions:
        raise PluginFault(f"{start} empty list of supported gRPC services (aka supported versions)")
    for version in versions:
        if version in SERVICES:
            return version
    theirs, ours = _listed(versions), _listed(SERVICES)
    message = f"none of services supported by the plugin ({theirs}) are supported by the kubelet ({ours})"
    raise PluginFault(f"{start} {message}")


def _listed(names: Sequence[str]) -> str:
    return f"[{' '.join(f'{chr(34)}{name}{chr(34)}' for name in names)}]"


class Drivers:
    """Drivers by name. If a driver has several endpoints, the latest is used."""

    def __init__(self) -> None:
        self._all: dict[str, list[Driver]] = {}

    def add(self, driver: Driver) -> None:
        drivers = self._all.setdefault(driver.name, [])
        if any(other.endpoint == driver.endpoint for other in drivers):
            message = f"endpoint {driver.endpoint} already registered for DRA driver plugin {driver.name}"
            raise PluginFault(message)
        drivers.append(driver)

    def remove(self, name: str, endpoint: str) -> bool:
        """Remove the endpoint. Return whether it was the last one of the driver."""
        remaining = [driver for driver in self._all.get(name, ()) if driver.endpoint != endpoint]
        if remaining:
            self._all[name] = remaining
        else:
            self._all.pop(name, None)
        return not remaining

    def __contains__(self, name: str) -> bool:
        return name in self._all

    def get(self, name: str) -> Driver | None:
        drivers = self._all.get(name)
        return drivers[-1] if drivers else None
