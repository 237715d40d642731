"""The HTTP layer: from requests to calls, and from results to bytes on the wire. Its counterparts are the
secure serving and filters of `k8s.io/apiserver/pkg/server`."""
