"""The generic registry: the behavior that all kinds share, and one module per kind for what differs.

`Store` implements create, update and delete for any resource; a `Strategy` declares only what is special about a kind
(defaults, preparation, validation, table columns); `Registry` opens the store of a resource on first use. The
counterparts are `k8s.io/apiserver/pkg/registry/generic`, `pkg/registry` and `pkg/apis/*/validation`.
"""
