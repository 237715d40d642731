"""Features that Kubernetes has removed or calls legacy, each kept in one place, so that one sees what it costs.

| feature | state in Kubernetes | where |
|---|---|---|
| HTTP basic authentication (`--basic-auth-file`) | removed in 1.19 | `basic_auth` |
| attribute-based access control (`--authorization-mode=ABAC`) | legacy | `abac` |
| watch paths, `/api/v1/watch/...` | deprecated | `sampan.api.scheme.parse_path`, `Call.is_classic_watch` |
| proxy paths, `/api/v1/proxy/...` | removed in 1.10 | `sampan.api.scheme.parse_path`: the subresource proxy |
| plain HTTP (`--insecure-port`) | removed in 1.24 | `ServerConfig.insecure_port`, `ApiServerAddress.listen` |
| OpenAPI v2 as protobuf | for old versions of kubectl | `sampan.apiserver.nonresource.openapi.v2` |
"""
