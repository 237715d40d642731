"""What a client sends: the request itself, its options, the negotiated media type, bodies, patches and applies.

Decoding and checks of a request belong here; executing it does not. The counterparts are
`k8s.io/apiserver/pkg/endpoints/request`, `endpoints/handlers/negotiation` and the decoding parts of
`endpoints/handlers`.
"""
