"""What an API server is told when it starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sampan.apiserver.authz.abac import AbacPolicy
from sampan.apiserver.call import User

if TYPE_CHECKING:
    from sampan.apiserver.audit.policy import Policy
    from sampan.apiserver.auth.front_proxy import FrontProxySettings
    from sampan.apiserver.auth.oidc import JwtIssuer
    from sampan.apiserver.auth.token_webhook import TokenWebhookSettings
    from sampan.apiserver.authz.modes import Mode
    from sampan.apiserver.proxy.kubelets import KubeletAccess
    from sampan.storage.encryption import Encryption

ISSUER = "https://kubernetes.default.svc"
"""Who tokens of service accounts say they come from, unless told otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    certificate: Path
    key: Path
    client_ca: Path | None = None
    is_strict: bool = False
    """Nothing older than TLS 1.3 is spoken; otherwise 1.2."""

    @property
    def all(self) -> list[Path]:
        return [self.certificate, self.key, *([self.client_ca] if self.client_ca is not None else [])]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditConfig:
    policy: "Policy"
    path: str
    """The file that is written; "-" for the standard output."""
    max_size_mb: int = 100
    """When the file has grown so large it is put aside."""
    max_backups: int = 0
    """How many of those are kept; 0: all."""
    max_age_days: int = 0
    """How long; 0: for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    bind_address: str = "0.0.0.0"
    other_bind_addresses: Sequence[str] = ()
    """Further addresses on which the secure port is served."""
    secure_port: int = 6443
    """0: no TLS listener."""
    any_secure_port: bool = False
    """Take a free port instead of `secure_port`."""
    insecure_bind_address: str = "127.0.0.1"
    insecure_port: int = 0
    """0: no plain HTTP."""
    any_insecure_port: bool = False
    """Serve plain HTTP on a free port instead of `insecure_port`."""
    advertise_address: str = ""
    """Where clients in the cluster reach the server; empty: found out."""
    tls: TlsFiles | None = None
    tokens: Mapping[str, User] = field(default_factory=dict)
    allows_anonymous: bool = True
    anonymous_paths: Sequence[str] = ()
    """Where the anonymous may go; none: everywhere."""
    front_proxy: "FrontProxySettings | None" = None
    """Which proxies are believed about who calls."""
    jwt_issuers: "Sequence[JwtIssuer]" = ()
    """Whose tokens are believed besides those of service accounts."""
    authentication_config: Path | None = None
    """The file that the issuers come from, which is followed."""
    token_webhook: "TokenWebhookSettings | None" = None
    basic_users: Sequence[tuple[str, User]] = ()
    """By their passwords."""
    has_bootstrap_tokens: bool = False
    """Secrets of kube-system may be tokens for nodes that join."""
    abac_policies: Sequence[AbacPolicy] = ()
    authorization_modes: "Sequence[Mode]" = ("Node", "RBAC")
    authorization_config: Path | None = None
    """The file that the modes come from, which is followed."""
    service_cluster_ip_range: str = "10.96.0.0/16"
    service_node_port_range: tuple[int, int] = (30000, 32767)
    runtime_config: Mapping[str, bool] = field(default_factory=dict)
    event_ttl_s: float = 3600
    audit: AuditConfig | None = None
    encryption: "Encryption | None" = None
    """Which resources are encrypted in the store, and how."""
    encryption_config: Path | None = None
    """The file that says so, if it is followed; `encryption` is a changing one then."""
    service_account_issuer: str = ISSUER
    other_service_account_issuers: Sequence[str] = ()
    """Whose tokens are believed as well, while issuers change."""
    service_account_jwks_uri: str = ""
    """Where others find the keys, if not here."""
    service_account_max_token_s: float = 0
    """How long tokens are good for at most; 0: as long as is asked for."""
    extends_account_tokens: bool = True
    """Tokens of pods are good for a year, for programs that do not look for new ones."""
    service_account_key: Path | None = None
    """Signs tokens."""
    service_account_public_keys: Sequence[Path] = ()
    """Verify tokens besides the key that signs them."""
    api_audiences: Sequence[str] = ()
    """What the server goes by in tokens; empty: the issuer."""
    enabled_admission_plugins: Sequence[str] = ()
    """Besides those that are on anyway."""
    disabled_admission_plugins: Sequence[str] = ()
    admission_configurations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What single plug-ins are told."""
    kubelets: "KubeletAccess | None" = None
    """How the server shows itself to kubelets; None: not at all, and it believes them."""
    proxy_client: tuple[Path, Path] | None = None
    """The certificate and the key by which services that serve a part of the API know this server."""
    has_fairness: bool = True
    """Requests are told apart and queue by their flows; otherwise only counted."""
    max_in_flight: int = 400
    """Requests at once that only read."""
    max_mutating_in_flight: int = 200

    @property
    def proxy_ca(self) -> Path | None:
        """Who vouches for proxies in front."""
        return self.front_proxy.ca if self.front_proxy is not None else None
