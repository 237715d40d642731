"""EventRateLimit: limits the rate of events per server, namespace, user, or source and object."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sampan.api.resources.resource import Resource
from sampan.api.types.core_v1 import Event
from sampan.apiserver.admission.framework.admission_configuration import ConfigurationError
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation
from sampan.machinery import errors

_DEFAULT_CACHE_SIZE = 4096


def _source_and_object(attributes: AdmissionAttributes) -> str:
    event: Event = attributes.obj
    source, involved_object = event.source, event.involvedObject
    parts = (
        source.component,
        source.host,
        involved_object.kind,
        involved_object.namespace,
        involved_object.name,
        involved_object.uid,
        involved_object.apiVersion,
    )
    return "".join(parts)


_KEYS: dict[str, Callable[[AdmissionAttributes], str]] = {
    "Server": lambda attributes: "",
    "Namespace": lambda attributes: attributes.namespace,
    "User": lambda attributes: attributes.user.name,
    "SourceAndObject": _source_and_object,
}


@dataclass(slots=True)
class TokenBucket:
    """A token bucket that holds up to `burst` tokens and gains `qps` of them per second."""

    qps: float
    burst: int
    tokens: float
    at: float

    def take(self, now: float) -> bool:
        self.tokens = min(self.burst, self.tokens + (now - self.at) * self.qps)
        self.at = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


@dataclass(slots=True, kw_only=True)
class EventLimit:
    type: str
    qps: int
    burst: int
    keys_kept: int
    _buckets: OrderedDict[bytes, TokenBucket] = field(default_factory=OrderedDict)
    """The buckets by the hash of their keys, which clients may make as long as an object."""

    def accepts(self, key: str, now: float) -> bool:
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
        bucket = self._buckets.pop(digest, None) or TokenBucket(self.qps, self.burst, self.burst, now)
        self._buckets[digest] = bucket
        if len(self._buckets) > self.keys_kept:
            self._buckets.popitem(last=False)
        return bucket.take(now)


class EventRateLimit:
    name = "EventRateLimit"

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._limits = [_limit(index, row) for index, row in enumerate(config.get("limits") or ())]
        if not self._limits:
            raise ConfigurationError("EventRateLimit: limits: Required value: must have at least one limit")

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        is_event = resource.plural == "events" and resource.group == ""
        return is_event and operation in ("CREATE", "UPDATE") and not subresource

    async def validate(self, attributes: AdmissionAttributes) -> None:
        if attributes.dry_run:
            return
        now, reached = attributes.registry.clock.monotonic(), []
        for limit in self._limits:
            key = _KEYS[limit.type](attributes)
            if not limit.accepts(key, now):
                reached.append(f"limit reached on type {limit.type} for key {key}")
        if reached:
            raise errors.too_many_requests(reached[0] if len(reached) == 1 else f"[{', '.join(reached)}]")


def _limit(index: int, row: Mapping[str, Any]) -> EventLimit:
    path = f"EventRateLimit: limits[{index}]"
    if row.get("type") not in _KEYS:
        raise ConfigurationError(f"{path}.type: must be one of {', '.join(_KEYS)}")
    for name in ("qps", "burst"):
        if not isinstance(row.get(name), int) or row[name] <= 0:
            raise ConfigurationError(f"{path}.{name}: must be positive")
    return EventLimit(
        type=row["type"], qps=row["qps"], burst=row["burst"], keys_kept=row.get("cacheSize") or _DEFAULT_CACHE_SIZE
    )
