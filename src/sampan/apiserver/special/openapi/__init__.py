"""/openapi/v2 and /openapi/v3: the API described for clients, made from the resources and their schemas.

`parameters` and `operations` are what both versions of OpenAPI have in common, `definitions` the schemas, `documents`
writes v3, `swagger` v2, and `gnostic` v2 as protobuf; `serving` answers requests.
"""

from sampan.apiserver.special.openapi.serving import OpenApi

__all__ = ["OpenApi"]
