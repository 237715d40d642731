"""Non-resource paths: discovery, OpenAPI, health, metrics, version. One handler each, `(call) -> ApiResponse`.

Only what the server reports about itself belongs here. Documents are generated when they are first requested and cached
until the set of resources changes; nothing is generated at the start. The counterparts are the `routes` and `healthz`
packages of `k8s.io/apiserver/pkg/server` and `k8s.io/apiserver/pkg/endpoints/discovery`.
"""

from sampan.apiserver.nonresource.routes import NonResourceHandler, nonresource_handlers

__all__ = ["NonResourceHandler", "nonresource_handlers"]
