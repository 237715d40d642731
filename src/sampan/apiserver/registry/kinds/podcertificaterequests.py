"""PodCertificateRequest: a certificate that a kubelet requests for a pod.

In kube-apiserver the main path declares no reset fields, and the path of the status only the spec, although it keeps
the metadata too.
"""

from sampan.apiserver.registry.behavior import GenericStrategy, status_behavior
from sampan.machinery.apply import AllFieldsFilter, ExcludedFieldsFilter

BEHAVIOR = status_behavior(
    GenericStrategy(has_status=True, allow_unconditional_update=False, reset_fields=AllFieldsFilter()),
    keeps_metadata=True,
    reset_fields=ExcludedFieldsFilter("spec"),
)
