"""Non-resource paths: discovery, OpenAPI, health, metrics, version. One handler each, `(call) -> Answer`.

Only what the server reports about itself belongs here. Documents are generated when they are first requested and cached
until the set of resources changes; nothing is generated at the start. The counterparts are the `routes` and `healthz`
packages of `k8s.io/apiserver/pkg/server` and `k8s.io/apiserver/pkg/endpoints/discovery`.
"""

from sampan.apiserver.nonresource.health import Check
from sampan.apiserver.nonresource.routes import Special, special_paths

__all__ = ["Check", "Special", "special_paths"]
