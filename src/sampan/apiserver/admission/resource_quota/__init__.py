"""ResourceQuota: what a namespace uses in total stays within its quotas.

`demand` tells what a write would use of each quota and `ledger` what fits (both pure); `charging` writes it down in the
quota's status by compare and swap, so that servers that share a store never give out more than there is; `plugin` is
the shell. Nothing is given back here but what a refused write had been charged for: the resource-quota controller
counts anew.
"""

from sampan.apiserver.admission.resource_quota.plugin import ResourceQuotaAdmission

__all__ = ["ResourceQuotaAdmission"]
