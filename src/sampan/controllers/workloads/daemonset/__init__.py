"""daemonset-controller, which runs one pod of a DaemonSet on every eligible node (`pkg/controller/daemon`).

`placement` selects the nodes, `template` builds the pods, `manage` and `rolling` decide which pods to create and
delete, `status` counts, `history` keeps the revisions, and `controller` acts.
"""

from sampan.controllers.workloads.daemonset.controller import DaemonSetController, make

__all__ = ["DaemonSetController", "make"]
