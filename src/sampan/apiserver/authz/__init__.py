"""Authorization: the contract of an authorizer, the authorizers, and the union that consults them in order.

An authorizer decides on `Attributes`, so that an access review is decided in the same way as a real request. The user
was authenticated before, in `authn`. The counterparts are `k8s.io/apiserver/pkg/authorization` and
`pkg/kubeapiserver/authorizer`.
"""

from sampan.apiserver.authz.authorizer import (
    ALLOWED,
    UNDECIDED,
    Attributes,
    Authorizer,
    Decision,
    Verdict,
    attributes_of,
    refusal,
)
from sampan.apiserver.authz.union import Chain, Masters, OpenPaths

__all__ = [
    "ALLOWED",
    "UNDECIDED",
    "Attributes",
    "Authorizer",
    "Chain",
    "Decision",
    "Masters",
    "OpenPaths",
    "Verdict",
    "attributes_of",
    "refusal",
]
