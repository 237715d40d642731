"""Authorization checks by admission plugins, for permissions beyond the request itself."""

from __future__ import annotations

from sampan.apiserver.admission.contract import AdmissionAttributes
from sampan.apiserver.authz.authorizer import ALLOW, AuthzDecision, AuthzResult
from sampan.apiserver.authz.authorizer import Attributes as AuthzAttributes


async def authorize(attributes: AdmissionAttributes, request: AuthzAttributes) -> AuthzResult:
    """Return the decision; a server without an authorizer allows everything."""
    security = attributes.registry.security
    return ALLOW if security is None else await security.authorizer.authorize(request)


async def is_allowed(attributes: AdmissionAttributes, request: AuthzAttributes) -> bool:
    return (await authorize(attributes, request)).decision is AuthzDecision.ALLOW


async def is_authorized_for_signer(attributes: AdmissionAttributes, verb: str, signer: str) -> bool:
    """Whether the user has permission for the signer, or for its whole domain."""
    names = (signer, f"{signer.partition('/')[0]}/*")
    for name in names:
        request = AuthzAttributes(attributes.user, verb, "", "certificates.k8s.io", "*", "signers", name=name)
        if await is_allowed(attributes, request):
            return True
    return False
