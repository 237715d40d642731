"""Field management for served resources: `sampan.machinery.apply` applied to requests.

`Ownership` is what the write path calls; the rest defines which fields a path resets (`reset_fields`), the versions of
a kind (`resource_forms`), and the names of managers (`manager_names`). Merging and comparing do not belong here: they
are pure and are in `sampan.machinery.apply`. The counterpart is `k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager`.
"""

from sampan.apiserver.fieldmanager.manager_names import manager_name
from sampan.apiserver.fieldmanager.ownership import Ownership

__all__ = ["Ownership", "manager_name"]
