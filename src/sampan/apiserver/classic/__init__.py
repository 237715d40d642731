"""Features that Kubernetes has removed or calls legacy, each kept in one place, so that one sees what it costs.

| feature | removed in | where |
|---|---|---|
| HTTP basic authentication (`--basic-auth-file`) | 1.19 | `basic_auth` |
| attribute-based access control (`--authorization-mode=ABAC`) | legacy | `abac` |
"""
