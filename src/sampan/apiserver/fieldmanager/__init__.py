"""Field management for served resources: `sampan.machinery.apply` applied to requests.

`Ownership` is what the write path calls, `scale_handler` what writes to the scale subresource call. Which fields a path
resets is declared by its strategy (`sampan.apiserver.registry.behaviour`). Merging and comparing do not belong here:
they are pure and are in `sampan.machinery.apply`. The counterpart is
`k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager`.
"""

from sampan.apiserver.fieldmanager.ownership import Ownership, manager_name

__all__ = ["Ownership", "manager_name"]
