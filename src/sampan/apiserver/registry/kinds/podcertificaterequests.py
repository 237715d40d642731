"""PodCertificateRequest: a certificate that a kubelet requests for a pod.

In kube-apiserver the main path declares no reset fields, and the path of the status only the spec, although it keeps
the metadata too.
"""

from sampan.apiserver.registry.behaviour import GenericStrategy, status_behaviour
from sampan.machinery.apply import AllFieldsFilter, ExcludedFieldsFilter

BEHAVIOUR = status_behaviour(
    GenericStrategy(has_status=True, allow_unconditional_update=False, reset_fields=AllFieldsFilter()),
    keeps_metadata=True,
    reset_fields=ExcludedFieldsFilter("spec"),
)
