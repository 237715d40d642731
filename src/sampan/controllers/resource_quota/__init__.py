"""resource-quota-controller: counts what a namespace uses, and keeps that in the status of its quotas.

`recount` decides (pure), `controller` reads and writes.
"""

from sampan.controllers.resource_quota.controller import ResourceQuotaController, make

__all__ = ["ResourceQuotaController", "make"]
