"""Authorization checks by admission plugins, for permissions beyond the request itself."""

from __future__ import annotations

from sampan.apiserver.admission.chain import Attributes
from sampan.apiserver.authz.authorizer import ALLOWED, Decision, Verdict
from sampan.apiserver.authz.authorizer import Attributes as Asked


async def decide(attributes: Attributes, asked: Asked) -> Decision:
    """Return the decision; a server without an authorizer allows everything."""
    security = attributes.registry.security
    return ALLOWED if security is None else await security.authorizer.decide(asked)


async def is_allowed(attributes: Attributes, asked: Asked) -> bool:
    return (await decide(attributes, asked)).verdict is Verdict.ALLOWED


async def may_for_signer(attributes: Attributes, verb: str, signer: str) -> bool:
    """Whether the user has permission for the signer, or for its whole domain."""
    names = (signer, f"{signer.partition('/')[0]}/*")
    for name in names:
        request = Asked(attributes.user, verb, "", "certificates.k8s.io", "*", "signers", name=name)
        if await is_allowed(attributes, request):
            return True
    return False
