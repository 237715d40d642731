"""Controllers of credentials: certificate signing requests, service account tokens and bootstrap tokens.

The counterparts are `pkg/controller/certificates`, `pkg/controller/serviceaccount` and `pkg/controller/bootstrap`.
"""
