"""The scheduling framework: the plug-in contract (`contract`) and its runtime (`profile`, `kinds`, `binding_cycle`).

The counterpart is `pkg/scheduler/framework`. A plug-in is any object with a `name` and the methods of the extension
points that it implements. It declares what its results depend on (`scope`), and the framework caches them until that
changes. The framework adds the names of plug-ins to verdicts and metrics; plug-ins never do.
"""

from sampan.scheduler.framework.contract import (
    MAX_SCORE,
    ClusterEvent,
    Code,
    CycleState,
    Handle,
    Plugin,
    PluginScope,
    PostFilterResult,
    PreFilterResult,
    QueueingHint,
    Status,
)
from sampan.scheduler.framework.diagnosis import NodeRejection, RejectionTable
from sampan.scheduler.framework.scalar_plugin import NodeView, ScalarPlugin

__all__ = [
    "MAX_SCORE",
    "ClusterEvent",
    "Code",
    "CycleState",
    "Handle",
    "NodeRejection",
    "NodeView",
    "Plugin",
    "PluginScope",
    "PostFilterResult",
    "PreFilterResult",
    "QueueingHint",
    "RejectionTable",
    "ScalarPlugin",
    "Status",
]
