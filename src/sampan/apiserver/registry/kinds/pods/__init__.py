"""Pod: creation, updates, deletion and subresources.

`strategy` has the strategies, `columns` the table, `connect` serves log, exec, attach and portforward, `eviction`
eviction. The pod spec is in `registry.podspec`. The counterpart is `pkg/registry/core/pod`.
"""

from sampan.apiserver.handlers import Handlers
from sampan.apiserver.proxy.proxied import proxy_to_pod
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.kinds.bindings import bind
from sampan.apiserver.registry.kinds.pods.connect import connect, read_log
from sampan.apiserver.registry.kinds.pods.eviction import evict
from sampan.apiserver.registry.kinds.pods.strategy import (
    EphemeralContainersStrategy,
    PodStatusStrategy,
    PodStrategy,
    ResizeStrategy,
)

BEHAVIOR = ResourceBehavior(
    strategy=PodStrategy(),
    views={
        "status": PodStatusStrategy(),
        "ephemeralcontainers": EphemeralContainersStrategy(),
        "resize": ResizeStrategy(),
    },
)
HANDLERS: Handlers = {
    "binding": bind,
    "eviction": evict,
    "log": read_log,
    "exec": connect,
    "attach": connect,
    "portforward": connect,
    "proxy": proxy_to_pod,
}
