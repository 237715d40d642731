"""How many seats a call takes: a list takes more, the more objects it has to go through."""

from __future__ import annotations

import math

from sampan.apiserver.call import Call
from sampan.apiserver.registry.registry import Registry

_PER_SEAT = 100
_MOST = 10


def width(call: Call, registry: Registry) -> int:
    if call.verb != "list" or call.resource is None or call.name:
        return 1
    count = registry.count(call.resource)
    limit = call.query.get("limit")
    if limit.isdecimal() and 0 < int(limit) < count:
        count = int(limit)
    return min(max(math.ceil(count / _PER_SEAT), 1), _MOST)


__all__ = ["width"]
