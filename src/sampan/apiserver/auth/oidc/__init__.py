"""Tokens of issuers outside the cluster: which are believed, their keys, and who their claims name."""

from sampan.apiserver.auth.oidc.authenticator import OidcTokens
from sampan.apiserver.auth.oidc.issuers import ALGORITHMS, JwtIssuer

__all__ = ["ALGORITHMS", "JwtIssuer", "OidcTokens"]
