"""statefulset-controller: pods with names, places and claims of their own, one after the other.

`identity` says who a pod is, `claims` which volumes are its own and when they go, `plan` what is to be done next,
`status` counts, `revisions` finds the templates; `members` carries out what concerns one pod, `controller` the rest.
"""

from sampan.controllers.workloads.statefulset.controller import StatefulSetController, make

__all__ = ["StatefulSetController", "make"]
