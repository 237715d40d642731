"""The scheduling framework: what a plug-in may be (`contract`), and what runs them (`profile`, `kinds`).

A plug-in is any object with a `name` and the methods of the extension points that it takes part in. It says what its
verdicts depend on (`scope`); the framework keeps them as long as that stays the same. The names of plug-ins are stamped
on verdicts and metrics here, never by the plug-ins.
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
