"""The version of a cluster, and the features that it has beyond the Kubernetes API."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import msgspec

from sampan.api.codec.errors import JSON_ERRORS
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client.transport import ConnectionFailed, Request
from sampan.machinery.client.user_api import UserApi

_CACHE_TTL_S = 60.0
_PROBES: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "flightRecorder": ("/debug/flightrecorder", [("after", str(2**62))]),
    "why": ("/debug/scheduler/decisions", [("limit", "1")]),
    "queues": ("/debug/controllers", []),
    "metrics": ("/apis/metrics.k8s.io/v1beta1", []),
}
"""The path and query of a request for each feature. The request succeeds if the cluster has the feature and the user
may use it."""


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    version: str
    features: dict[str, bool] = field(default_factory=dict)
    """The features that the cluster has and the user may use, each with the value true. Other features are absent."""


class ClusterFeatures:
    """The versions and features of clusters as their users see them, cached for a minute."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._descriptions: WeakKeyDictionary[UserApi, tuple[float, ClusterDescription]] = WeakKeyDictionary()

    async def describe(self, api: UserApi) -> ClusterDescription:
        now = self._clock.monotonic()
        description = self._descriptions.get(api)
        if description is None or description[0] < now - _CACHE_TTL_S:
            description = self._descriptions[api] = (now, await _description(api))
        return description[1]


async def _description(api: UserApi) -> ClusterDescription:
    probes = await asyncio.gather(*(_succeeds(api, path, query) for path, query in _PROBES.values()))
    features = {name: True for name, is_there in zip(_PROBES, probes, strict=True) if is_there}
    if "flightRecorder" in features:
        features |= {"audit": True, "trace": True}
    return ClusterDescription(
        await _version(api), features | {"complete": True, "diff": True, "yaml": True, "overview": True}
    )


async def _version(api: UserApi) -> str:
    try:
        body = (await api.send(Request(method="GET", path="/version", headers={"Accept": "application/json"}))).body()
        return str(msgspec.json.decode(body).get("gitVersion", ""))
    except (errors.ApiError, ConnectionFailed, *JSON_ERRORS, AttributeError):
        return ""


async def _succeeds(api: UserApi, path: str, query: list[tuple[str, str]]) -> bool:
    try:
        await api.send(Request(method="GET", path=path, query=query, headers={"Accept": "*/*"}))
    except (errors.ApiError, ConnectionFailed):
        return False
    return True
