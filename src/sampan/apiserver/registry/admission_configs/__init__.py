"""Validation of dynamic admission: webhook configurations, admission policies and their bindings.

`matching` validates which requests they apply to, `clients` the address of a webhook, `webhooks` both kinds of webhook
configuration, `policies` and `bindings` what validating and mutating policies share. Admission itself is not done here.
The counterpart is `pkg/apis/admissionregistration/validation`.
"""
