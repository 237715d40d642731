"""Files that the server reloads when they change: authentication, authorization, encryption and certificates."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sampan.apiserver.authn.cluster_authentication_trust import trust_data
from sampan.apiserver.http.tls import tls_context
from sampan.host.clock import Clock, RealClock
from sampan.machinery.config_file import ConfigFileError

if TYPE_CHECKING:
    from sampan.apiserver.authn.authentication_configuration import AuthenticationSettings
    from sampan.apiserver.authn.oidc import OidcTokens
    from sampan.apiserver.authz.modes import Mode
    from sampan.apiserver.config.server_config import ServerConfig
    from sampan.host.clock import Clock
    from sampan.storage.encryption import EncryptionRules

log = logging.getLogger(__name__)

INTERVAL_S = 10.0
Content = TypeVar("Content")


class ReloadingFile(Generic[Content]):
    """Checks periodically whether the file, or one of the files in `beside`, has changed, and reloads it. While one of
    the files cannot be read, the previous contents remain in use. Invalid contents are logged once and ignored until
    the next change."""

    def __init__(
        self,
        path: Path,
        *,
        beside: Sequence[Path] = (),
        read: Callable[[Path], Content],
        use: Callable[[Content], None],
        clock: Clock,
    ) -> None:
        self._path, self._paths = path, (path, *beside)
        self._read, self._use, self._clock = read, use, clock
        self._contents = self._bytes()

    async def run(self) -> None:
        while True:
            await self._clock.sleep(INTERVAL_S)
            self.check()

    def check(self) -> None:
        now = self._bytes()
        if now is None or now == self._contents:
            return
        self._contents = now
        try:
            self._use(self._read(self._path))
        except (OSError, ValueError) as error:  # ConfigFileError is a ValueError
            log.error("cannot reload %s, keeping the previous contents: %s", self._path, error)
            return
        log.info("reloaded %s", self._path)

    def _bytes(self) -> list[bytes] | None:
        try:
            return [path.read_bytes() for path in self._paths]
        except OSError:
            return None


def make_reloading_files(
    config: ServerConfig, oidc: OidcTokens | None, use_modes: Callable[[Sequence[Mode]], None], clock: Clock
) -> Iterator[ReloadingFile[Any]]:
    if config.authentication_config is not None and oidc is not None:
        yield _authentication(config, config.authentication_config, oidc, clock)
    if config.authorization_config is not None:
        from sampan.apiserver.authz.authorization_configuration import read_authorization

        yield ReloadingFile(config.authorization_config, read=read_authorization, use=use_modes, clock=clock)
    if config.encryption_config is not None and config.encryption is not None:
        yield _encryption(config.encryption, config.encryption_config, clock)


def _authentication(
    config: ServerConfig, path: Path, oidc: OidcTokens, clock: Clock
) -> ReloadingFile[AuthenticationSettings]:
    from sampan.apiserver.authn.authentication_configuration import read_authentication

    def read(path: Path) -> AuthenticationSettings:
        return read_authentication(path, [config.service_account_issuer, *config.other_service_account_issuers])

    def use(settings: AuthenticationSettings) -> None:
        """Replace the issuers. The anonymous settings are fixed when the server starts, as in kube-apiserver."""
        anonymous = (settings.allows_anonymous, tuple(settings.anonymous_paths))
        if settings.is_anonymous_set and anonymous != (config.allows_anonymous, tuple(config.anonymous_paths)):
            log.warning("%s: the change of the anonymous section takes effect after a restart of the server", path)
        oidc.replace(settings.issuers)

    return ReloadingFile(path, read=read, use=use, clock=clock)


def _encryption(present: EncryptionRules, path: Path, clock: Clock) -> ReloadingFile[EncryptionRules]:
    from sampan.storage.encryption import ChangingEncryption, EncryptionConfigError, read_encryption_config

    if not isinstance(present, ChangingEncryption):
        raise TypeError("only a ChangingEncryption can be reloaded")

    def read(path: Path) -> EncryptionRules:
        try:
            return read_encryption_config(path)
        except EncryptionConfigError as error:
            raise ConfigFileError(str(error)) from None

    return ReloadingFile(path, read=read, use=present.replace, clock=clock)


def make_reloading_certificates(
    config: ServerConfig,
    *,
    use_tls: Callable[[ssl.SSLContext], None],
    use_trust: Callable[[Mapping[str, str]], object],
    use_kubelets: Callable[[ssl.SSLContext], None],
) -> Iterator[ReloadingFile[Any]]:
    """Return the reloaded certificate files. They use the real clock, because TLS verifies validity with the system
    time."""
    clock = RealClock()
    tls, proxies = config.tls, config.proxy_ca
    if tls is not None:

        def read(_: Path) -> tuple[ssl.SSLContext, Mapping[str, str]]:
            return tls_context(tls, proxies), trust_data(config)

        def use(contents: tuple[ssl.SSLContext, Mapping[str, str]]) -> None:
            context, trust = contents
            use_tls(context)
            use_trust(trust)

        beside = [*tls.all, *([proxies] if proxies is not None else [])]
        yield ReloadingFile(tls.certificate, beside=beside, read=read, use=use, clock=clock)
    kubelets = config.kubelets
    if kubelets is not None and kubelets.files:
        first, *others = kubelets.files
        yield ReloadingFile(first, beside=others, read=lambda _: kubelets.context(), use=use_kubelets, clock=clock)


def make_reloading_proxy_client(files: tuple[Path, Path], renew: Callable[[], None]) -> ReloadingFile[None]:
    """Return the reloaded client certificate for extension API servers. `renew` is called after a change to a valid
    pair; an invalid certificate and key pair is ignored."""
    certificate, key = files

    def read(_: Path) -> None:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key)

    return ReloadingFile(certificate, beside=[key], read=read, use=lambda _: renew(), clock=RealClock())
