"""The configuration of an API server."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sampan.api.feature_gates import FeatureGates
from sampan.api.resources.runtime_config import ForwardCompatibility
from sampan.apiserver.admission.default_toleration_seconds import TolerationDefaults
from sampan.apiserver.classic.abac import AbacPolicy
from sampan.apiserver.request.call import UserInfo
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery.pki.server_tls import ServerTlsSettings

if TYPE_CHECKING:
    from sampan.apiserver.audit.policy import AuditPolicy
    from sampan.apiserver.audit.webhook import AuditWebhookConfig
    from sampan.apiserver.authn.front_proxy import FrontProxySettings
    from sampan.apiserver.authn.oidc import JwtIssuer
    from sampan.apiserver.authn.token_webhook import TokenWebhookSettings
    from sampan.apiserver.authz.modes import Mode
    from sampan.apiserver.proxy.kubelets import KubeletAccess
    from sampan.storage.encryption import EncryptionRules

ISSUER = "https://kubernetes.default.svc"
"""The default issuer of service account tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    certificate: Path
    key: Path
    client_ca: Path | None = None
    settings: ServerTlsSettings = field(default_factory=ServerTlsSettings)

    @property
    def all(self) -> list[Path]:
        return [self.certificate, self.key, *([self.client_ca] if self.client_ca is not None else [])]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditConfig:
    policy: "AuditPolicy"
    path: str = ""
    """The log file; "-" for the standard output, empty for none."""
    max_size_mb: int = 100
    """The size at which the file is rotated."""
    max_backups: int = 0
    """How many rotated files are kept; 0: all."""
    max_age_days: int = 0
    """How long rotated files are kept; 0: forever."""
    webhook: "AuditWebhookConfig | None" = None
    """The service that events are sent to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    bind_address: str = "0.0.0.0"
    other_bind_addresses: Sequence[str] = ()
    """Further addresses on which the secure port is served."""
    networks: Sequence[NetworkNamespace] = (NetworkNamespace(),)
    """The networks in which the server listens. An address may be missing in some of them."""
    secure_port: int = 6443
    """The port of the TLS listener; 0 disables it."""
    any_secure_port: bool = False
    """Whether to listen on a free port instead of `secure_port`."""
    insecure_bind_address: str = "127.0.0.1"
    insecure_port: int = 0
    """The port of the plain HTTP listener; 0 disables it."""
    any_insecure_port: bool = False
    """Whether to serve plain HTTP on a free port instead of `insecure_port`."""
    advertise_address: str = ""
    """The address at which clients in the cluster reach the server; empty: detected."""
    tls: TlsFiles | None = None
    feature_gates: FeatureGates = field(default_factory=FeatureGates)
    tokens: Mapping[str, UserInfo] = field(default_factory=dict)
    allows_anonymous: bool = True
    anonymous_paths: Sequence[str] = ()
    """The paths on which anonymous requests are allowed; none: all paths."""
    front_proxy: "FrontProxySettings | None" = None
    """Which front proxies are trusted to name the user in request headers."""
    jwt_issuers: "Sequence[JwtIssuer]" = ()
    """OIDC issuers whose tokens are accepted besides those of service accounts."""
    authentication_config: Path | None = None
    """The AuthenticationConfiguration file with the issuers, which is reloaded when it changes."""
    token_webhook: "TokenWebhookSettings | None" = None
    basic_users: Sequence[tuple[str, UserInfo]] = ()
    """Pairs of a password and its user, for HTTP basic authentication."""
    has_bootstrap_tokens: bool = False
    """Whether bootstrap token secrets in kube-system authenticate joining nodes."""
    abac_policies: Sequence[AbacPolicy] = ()
    authorization_modes: "Sequence[Mode]" = ("Node", "RBAC")
    authorization_config: Path | None = None
    """The AuthorizationConfiguration file with the modes, which is reloaded when it changes."""
    service_cluster_ip_range: str = "10.96.0.0/16"
    service_node_port_range: tuple[int, int] = (30000, 32767)
    service_allocation_seed: int | None = None
    """The start of the random numbers by which addresses and ports of services are allocated; None for unpredictable
    ones."""
    runtime_config: Mapping[str, bool] = field(default_factory=dict)
    forward_compatibility: ForwardCompatibility = field(default_factory=ForwardCompatibility)
    has_system_objects: bool = False
    """Whether the store is known to contain the objects that every server creates or updates when it starts, because
    it is a copy of the store of such a server."""
    event_ttl_s: float = 3600
    audit: AuditConfig | None = None
    encryption: "EncryptionRules | None" = None
    """Which resources are encrypted at rest, and how."""
    encryption_config: Path | None = None
    """The EncryptionConfiguration file, if it is reloaded when it changes; `encryption` is then a
    `ChangingEncryption`."""
    service_account_issuer: str = ISSUER
    other_service_account_issuers: Sequence[str] = ()
    """Further issuers whose tokens are accepted, for a change of the issuer."""
    service_account_jwks_uri: str = ""
    """The URL of the JWKS for relying parties, if it is not at this server."""
    service_account_max_token_s: float = 0
    """The maximum lifetime of tokens; 0: as long as requested."""
    extends_account_tokens: bool = True
    """Whether pod tokens are valid for a year, for clients that do not reload them."""
    service_account_key: Path | None = None
    """The private key that signs tokens."""
    service_account_public_keys: Sequence[Path] = ()
    """Public keys that verify tokens, besides the signing key."""
    api_audiences: Sequence[str] = ()
    """The audiences of tokens for this server; empty: the issuer."""
    enabled_admission_plugins: Sequence[str] = ()
    """Admission plugins that are enabled besides the default ones."""
    disabled_admission_plugins: Sequence[str] = ()
    admission_configurations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The configuration of individual admission plugins, by name."""
    tolerations: TolerationDefaults = field(default_factory=TolerationDefaults)
    """How long pods without tolerations of their own stay on nodes that are not ready or unreachable."""
    kubelets: "KubeletAccess | None" = None
    """How the server authenticates to kubelets; None: it does not, and does not verify their certificates."""
    proxy_client: tuple[Path, Path] | None = None
    """The client certificate and key that the server presents to extension API servers."""
    has_fairness: bool = True
    """Whether API Priority and Fairness is enabled; otherwise only the limits of requests in flight apply."""
    has_dashboard: bool = True
    """Whether the secure port serves the dashboard under /ui/."""
    max_in_flight: int = 400
    """The maximum number of concurrent read-only requests."""
    max_mutating_in_flight: int = 200

    @property
    def proxy_ca(self) -> Path | None:
        """The CA that signs the client certificates of front proxies; None if there is no front proxy."""
        return self.front_proxy.ca if self.front_proxy is not None else None
