"""May this user do that? Authorizers, one per file, the chain that asks them, and how a refusal is told.

An authorizer judges `Attributes`, so that a review asks about a call that nobody made in the same way as the pipeline
about one that somebody did. Who the user is was decided before, in `auth`.
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
