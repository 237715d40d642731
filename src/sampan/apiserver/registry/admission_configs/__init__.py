"""Validation of dynamic admission: webhook configurations, admission policies and their bindings.

`match_resources` validates which requests they apply to, `webhooks` both kinds of webhook configuration, `policies`
what validating and mutating policies and their bindings share. Admission itself is not done here. The counterpart is
`pkg/apis/admissionregistration/validation`.
"""
