"""The resources of the API: the declaration of a resource, the table of the built-in resources, and the selection of
those that a server serves (`k8s.io/apimachinery/pkg/runtime`, `k8s.io/apiserver/pkg/server/storage`)."""
