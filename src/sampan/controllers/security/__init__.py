"""Controllers of credentials: certificate signing requests, service account tokens and bootstrap tokens
(`pkg/controller/certificates`, `pkg/controller/serviceaccount`, `pkg/controller/bootstrap`).
"""
