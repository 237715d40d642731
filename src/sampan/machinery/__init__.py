"""Shared infrastructure of all components: clock, API errors, patching, API client, informers, work queues.

It may import `sampan.api`, but not the storage, the API server or any other component. The Kubernetes counterparts are
`k8s.io/client-go`, `k8s.io/component-base` and parts of `k8s.io/apimachinery`.
"""
