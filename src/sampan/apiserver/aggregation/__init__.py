"""API groups that other servers in the cluster serve, as APIService objects say (`k8s.io/kube-aggregator`).

`remote_api` proxies requests to the service of an APIService. `controller` follows the APIServices, checks their
availability and fetches their discovery documents; `registrations` keeps the APIServices of the groups that this server
serves itself. `discovery_documents` translates discovery documents between their formats. `openapi_download` reads
OpenAPI documents, `openapi_documents` selects what is used of them and merges it into those of this server.
"""
