"""/openapi/v2 and /openapi/v3: the OpenAPI documents, generated from the resources and their schemas.

`components` (schemas and parameters) and `operations` are shared by both versions, `documents` generates v3 and `v2`
the other, as JSON and protobuf; `handler` serves requests. The counterpart is `k8s.io/kube-openapi`.
"""

from sampan.apiserver.nonresource.openapi.handler import OpenApiHandler

__all__ = ["OpenApiHandler"]
