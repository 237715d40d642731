"""OIDC tokens: trusted issuers, their keys, and the mapping of claims to users. The counterpart is
`k8s.io/apiserver/plugin/pkg/authenticator/token/oidc`."""

from sampan.apiserver.authn.oidc.authenticator import OidcTokens
from sampan.apiserver.authn.oidc.issuers import ALGORITHMS, JwtIssuer

__all__ = ["ALGORITHMS", "JwtIssuer", "OidcTokens"]
