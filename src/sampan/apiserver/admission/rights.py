"""Authorization checks by admission plugins, for permissions beyond the request itself."""

from __future__ import annotations

from sampan.apiserver.admission.chain import Attributes
from sampan.apiserver.authz.authorizer import ALLOW, AuthzDecision, AuthzResult
from sampan.apiserver.authz.authorizer import Attributes as Asked


async def authorize(attributes: Attributes, asked: Asked) -> AuthzResult:
    """Return the decision; a server without an authorizer allows everything."""
    security = attributes.registry.security
    return ALLOW if security is None else await security.authorizer.authorize(asked)


async def is_allowed(attributes: Attributes, asked: Asked) -> bool:
    return (await authorize(attributes, asked)).decision is AuthzDecision.ALLOW


async def may_for_signer(attributes: Attributes, verb: str, signer: str) -> bool:
    """Whether the user has permission for the signer, or for its whole domain."""
    names = (signer, f"{signer.partition('/')[0]}/*")
    for name in names:
        request = Asked(attributes.user, verb, "", "certificates.k8s.io", "*", "signers", name=name)
        if await is_allowed(attributes, request):
            return True
    return False
