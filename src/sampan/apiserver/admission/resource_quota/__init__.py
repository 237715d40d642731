"""ResourceQuota: keeps the total resource usage of a namespace within its quotas.

`plugin` is the admission plug-in and computes what a write adds to each quota; `quota_charges` decides what fits, and
records it in the status of the quota with compare-and-swap, so that several servers never exceed a quota. Usage is only
released here if a rejected write had been charged: the resource quota controller recomputes it. The counterpart is
`k8s.io/apiserver/pkg/admission/plugin/resourcequota`.
"""

from sampan.apiserver.admission.resource_quota.plugin import ResourceQuotaAdmission

__all__ = ["ResourceQuotaAdmission"]
