"""Codecs between API objects, or their JSON values, and their encodings on the wire and in storage:
`k8s.io/apimachinery/pkg/runtime/serializer`."""
