"""How many seats a request occupies: a list occupies more, the more objects it processes."""

from __future__ import annotations

import math

from sampan.api.integers import parse_int64
from sampan.apiserver.call import Call
from sampan.apiserver.registry.registry import Registry

_PER_SEAT = 100
_MOST = 10


def width(call: Call, registry: Registry) -> int:
    if call.verb != "list" or call.resource is None or call.name:
        return 1
    count = registry.count(call.resource)
    limit = parse_int64(call.query.get("limit"))
    if limit is not None and 0 < limit < count:
        count = limit
    return min(max(math.ceil(count / _PER_SEAT), 1), _MOST)
