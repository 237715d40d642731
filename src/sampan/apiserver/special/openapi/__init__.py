"""/openapi/v2 and /openapi/v3: the OpenAPI documents, generated from the resources and their schemas.

`parameters` and `operations` are shared by both versions, `definitions` are the schemas, `documents` generates v3,
`swagger` v2, and `gnostic` v2 as protobuf; `serving` handles requests. The counterpart is `k8s.io/kube-openapi`.
"""

from sampan.apiserver.special.openapi.serving import OpenApi

__all__ = ["OpenApi"]
