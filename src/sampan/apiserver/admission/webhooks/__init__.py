"""Admission webhooks: MutatingAdmissionWebhook and ValidatingAdmissionWebhook.

`configurations` compiles the webhook configurations of the cluster, `review` builds an AdmissionReview and checks the
response, `caller` calls one webhook, `plugins` has the plugins, which call them all. The counterpart is
`k8s.io/apiserver/pkg/admission/plugin/webhook`.
"""

from sampan.apiserver.admission.webhooks.plugins import MutatingAdmissionWebhook, ValidatingAdmissionWebhook

__all__ = ["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"]
