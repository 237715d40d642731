"""The API server: HTTP at the edge, one pipeline in the middle, a generic registry over the store.

A request becomes a `Call`; the pipeline authenticates, classifies and authorizes it, an endpoint carries it out on a
`Store`, and the result is rendered in the form that the client asked for. The loopback transport enters the same
pipeline without HTTP. May import `sampan.api`, `sampan.machinery` and `sampan.storage`; no component may import it.
"""
