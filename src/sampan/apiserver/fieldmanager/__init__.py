"""Who manages which fields, for the resources that the server has: `sampan.machinery.apply` applied to requests.

`Ownership` is what the write path calls; the rest says which fields a path does not let change (`reset_fields`), what
the versions of a kind are (`resource_forms`), and what a manager is called (`manager_names`). What may not come here:
merging and comparing, which are pure and lie there.
"""

from sampan.apiserver.fieldmanager.manager_names import manager_name
from sampan.apiserver.fieldmanager.ownership import Ownership

__all__ = ["Ownership", "manager_name"]
