"""Authorization: the contract of an authorizer, the authorizers, and the union that consults them in order.

An authorizer decides on `Attributes`, so that an access review is decided in the same way as a real request. The user
was authenticated before, in `sampan.apiserver.authn`. The counterparts are `k8s.io/apiserver/pkg/authorization` and
`pkg/kubeapiserver/authorizer`.
"""

from sampan.apiserver.authz.authorizer import (
    ALLOW,
    NO_OPINION,
    AlwaysAllowPaths,
    Attributes,
    Authorizer,
    AuthzDecision,
    AuthzResult,
    PrivilegedGroupAuthorizer,
    UnionAuthorizer,
    attributes_of,
    forbidden_error,
)

__all__ = [
    "ALLOW",
    "NO_OPINION",
    "AlwaysAllowPaths",
    "Attributes",
    "Authorizer",
    "AuthzDecision",
    "AuthzResult",
    "PrivilegedGroupAuthorizer",
    "UnionAuthorizer",
    "attributes_of",
    "forbidden_error",
]
