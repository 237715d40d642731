"""statefulset-controller, which manages pods with stable names, ordinals and claims (`pkg/controller/statefulset`).

`identity` defines the identity of a pod, `claims` its claims and their retention, `plan` the next action, `status` the
counters, and `revisions` the templates. `members` acts on single pods, and `controller` does the rest.
"""

from sampan.controllers.workloads.statefulset.controller import StatefulSetController, make

__all__ = ["StatefulSetController", "make"]
