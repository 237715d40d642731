"""The scheduling framework: the extension points of plugins and their runtime.

The counterparts are `pkg/scheduler/framework` and `framework/runtime`. `extension_points` has the Protocols that a
plugin implements, `contract` and `cluster_event` what it exchanges with the framework; `framework`, `signature_cache`
and `binding_points` run the plugins. A plugin declares what its results depend on (`scope`), and the framework caches
them until that changes. The framework adds the names of plugins to rejections and metrics; plugins never do. This
package exports what a plugin outside of the repository needs.
"""

from sampan.scheduler.cache.arrays import Codes, Ints, Rows, count_of, numbers_of
from sampan.scheduler.framework.cluster_event import (
    ActionType,
    ClusterEvent,
    EventResource,
    QueueingHint,
    QueueingHints,
)
from sampan.scheduler.framework.contract import (
    MAX_SCORE,
    SKIP,
    Code,
    CycleState,
    PluginScope,
    PostFilterResult,
    PreFilterResult,
    Status,
)
from sampan.scheduler.framework.handle import Handle
from sampan.scheduler.framework.scalar_plugin import NodeView, ScalarPlugin

__all__ = [
    "MAX_SCORE",
    "SKIP",
    "ActionType",
    "ClusterEvent",
    "Code",
    "Codes",
    "CycleState",
    "EventResource",
    "Handle",
    "Ints",
    "NodeView",
    "PluginScope",
    "PostFilterResult",
    "PreFilterResult",
    "QueueingHint",
    "QueueingHints",
    "Rows",
    "ScalarPlugin",
    "Status",
    "count_of",
    "numbers_of",
]
