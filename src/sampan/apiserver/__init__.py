"""The API server: HTTP at the edge, one request pipeline, and a generic registry on top of the storage.

A request becomes a `Call`. The pipeline authenticates, classifies and authorizes it, an endpoint executes it on a
`Store`, and the result is rendered in the negotiated media type. The loopback transport enters the same pipeline
without HTTP. The counterparts are `cmd/kube-apiserver`, `pkg/controlplane` and `k8s.io/apiserver`. May import
`sampan.api`, `sampan.machinery` and `sampan.storage`; no component may import it.
"""
