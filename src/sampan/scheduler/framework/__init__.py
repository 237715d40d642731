"""The scheduling framework: the plug-in contract (`contract`) and its runtime (`profile`, `kinds`, `commitment`).

The counterpart is `pkg/scheduler/framework`. A plug-in is any object with a `name` and the methods of the extension
points that it implements. It declares what its results depend on (`scope`), and the framework caches them until that
changes. The framework adds the names of plug-ins to verdicts and metrics; plug-ins never do.
"""

from sampan.scheduler.framework.contract import (
    MAX_SCORE,
    ClusterEvent,
    Code,
    Cycle,
    Handle,
    Hint,
    Narrowed,
    Plugin,
    PostFilterResult,
    Scope,
    Status,
)
from sampan.scheduler.framework.scalar import NodeView, ScalarPlugin
from sampan.scheduler.framework.verdicts import Verdict, Verdicts

__all__ = [
    "MAX_SCORE",
    "ClusterEvent",
    "Code",
    "Cycle",
    "Handle",
    "Hint",
    "Narrowed",
    "NodeView",
    "Plugin",
    "PostFilterResult",
    "ScalarPlugin",
    "Scope",
    "Status",
    "Verdict",
    "Verdicts",
]
