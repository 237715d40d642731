"""Controllers of devices that pods claim (resource.k8s.io)."""
