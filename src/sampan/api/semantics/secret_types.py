"""The types of secrets to which components give a meaning."""

from typing import Final

SERVICE_ACCOUNT_TOKEN: Final = "kubernetes.io/service-account-token"
"""A secret whose token the service account token controller signs."""
BOOTSTRAP_TOKEN: Final = "bootstrap.kubernetes.io/token"
"""A token with which a new node joins the cluster."""
