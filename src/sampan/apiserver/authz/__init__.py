"""Authorization: authorizers, one per file, the chain that consults them, and the errors for rejected requests.

An authorizer decides on `Attributes`, so that an access review is decided in the same way as a real request. The user
was authenticated before, in `auth`. The counterparts are `k8s.io/apiserver/pkg/authorization` and
`pkg/kubeapiserver/authorizer`.
"""

from sampan.apiserver.authz.attributes import Attributes, attributes_of
from sampan.apiserver.authz.chain import Chain
from sampan.apiserver.authz.decisions import ALLOWED, UNDECIDED, Authorizer, Decision, Verdict
from sampan.apiserver.authz.privileged import Masters, OpenPaths
from sampan.apiserver.authz.refusals import refusal

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
