"""API groups that other servers in the cluster serve, as APIService objects say (`k8s.io/kube-aggregator`).

`remote_api` proxies requests to the service of an APIService and reads its OpenAPI documents. `controller` follows the
APIServices, checks their availability and fetches their discovery documents; `registrations` keeps the APIServices of
the groups that this server serves itself. `discovery_documents` translates discovery documents between their formats.
`openapi_conversion` converts OpenAPI v2 documents to v3, `openapi_documents` selects the usable parts of the documents
and merges them into those of this server.
"""
