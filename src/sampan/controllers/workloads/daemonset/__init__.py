"""daemonset-controller: one pod of a DaemonSet on every node that it belongs on.

`placement` says where, `template` makes the pods, `manage` and `rolling` decide what comes and goes, `status` counts,
`history` keeps the revisions; `controller` carries it out.
"""

from sampan.controllers.workloads.daemonset.controller import DaemonSetController, make

__all__ = ["DaemonSetController", "make"]
