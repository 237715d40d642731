"""The credentials of a kubelet: from its flags, or a certificate that it requests (TLS bootstrapping) and rotates."""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sampan.cluster import kubeconfig
from sampan.kubelet.agent.certificate_manager import (
    CertificateManager,
    CertificateStore,
    client_request,
    export_certificate,
    serving_request,
)
from sampan.machinery.cli_errors import CliError
from sampan.machinery.client import Client
from sampan.machinery.client.access import Access
from sampan.machinery.client.http import HttpTransport
from sampan.machinery.client.kubeconfig import KubeconfigError, load
from sampan.machinery.pki.certificates import KeyPair, common_name, expiry, kubelet_server_name

if TYPE_CHECKING:
    from sampan.kubelet.agent.config import AgentConfig
    from sampan.kubelet.agent.kubelet import Kubelet

_COMPONENT = "kubelet"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletIdentity:
    access: Access
    """The initial access to the API server."""
    directory: Path
    """The directory of the kubelet's certificates."""
    bootstrap: Access | None = None
    """The bootstrap credentials, with which the first certificate is requested."""
    present: KeyPair | None = None
    """The client certificate of the node, if it has one."""
    kubeconfig: Path | None = None
    """The kubeconfig to write once the first certificate is issued."""
    rotates: bool = False
    serving: bool = False
    """Whether the serving certificate, like the client certificate, is requested from the cluster
    (serverTLSBootstrap)."""
    serving_by_name: bool = False
    """Whether to request a serving certificate that contains only the node name, which Sampan's controllers approve.
    Until it is issued, the port uses a self-signed certificate."""

    @property
    def is_nobody(self) -> bool:
        """Whether the first certificate has not been issued yet."""
        return self.bootstrap is not None and self.present is None


def identity_of(options: Mapping[str, Any], settings: Mapping[str, Any], config: AgentConfig) -> KubeletIdentity:
    has_files, rotates_server = bool(settings["tls-cert-file"]), settings["rotate-server-certificates"]
    base = KubeletIdentity(
        access=Access(server=""),
        directory=Path(options["cert_dir"] or config.root / "pki"),
        serving=rotates_server and not has_files,
        serving_by_name=not (rotates_server or has_files or options["api_servers"])
        and options.get("rotate_server_certificates") is not False,
    )
    if options["api_servers"]:
        return replace(base, access=Access(server=options["api_servers"].split(",")[0].strip()))
    path, bootstrap = options["kubeconfig_path"], options["bootstrap_kubeconfig"]
    try:
        if (
            path
            and Path(path).exists()
            and (existing := _load_identity(base, path, config.name, bootstrap)) is not None
        ):
            return replace(existing, rotates=settings["rotate-certificates"] and existing.present is not None)
        if bootstrap:
            rotates = settings["rotate-certificates"]
            return replace(
                _load_bootstrap_identity(base, bootstrap, config.name), kubeconfig=_path(path), rotates=rotates
            )
        if path:
            return replace(base, access=load(Path(path)))
    except KubeconfigError as error:
        raise CliError(f"--kubeconfig: {error}") from None
    raise CliError("--kubeconfig: required, unless --bootstrap-kubeconfig or --api-servers is set")


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _load_identity(base: KubeletIdentity, path: str, node: str, bootstrap: str | None) -> KubeletIdentity | None:
    """Return the identity of the kubeconfig, with the newest certificate available. Return None if there is no valid
    certificate and bootstrapping can request one."""
    try:
        access = load(Path(path))
    except KubeconfigError:
        if bootstrap and _read_stored_pair(base.directory, node) is None:
            return None
        raise
    own = (
        _discard_foreign_pair(KeyPair(access.client_cert_pem, access.client_key_pem), node)
        if access.client_cert_pem
        else None
    )
    if own is None:
        return replace(base, access=access)
    newest = max((own, _read_stored_pair(base.directory, node) or own), key=lambda pair: expiry(pair.certificate))
    if bootstrap and expiry(newest.certificate) <= time.time():
        return None
    return replace(base, access=_with_key_pair(access, newest), present=newest)


def _load_bootstrap_identity(base: KubeletIdentity, bootstrap: str, node: str) -> KubeletIdentity:
    first = load(Path(bootstrap))
    nobody = Access(
        server=first.server,
        ca_pem=first.ca_pem,
        is_insecure=first.is_insecure,
        tls_server_name=first.tls_server_name,
        proxy_url=first.proxy_url,
    )
    stored_pair = _read_stored_pair(base.directory, node)
    if stored_pair is None or expiry(stored_pair.certificate) <= time.time():
        return replace(base, access=nobody, bootstrap=first)
    return replace(base, access=_with_key_pair(nobody, stored_pair), bootstrap=first, present=stored_pair)


def _read_stored_pair(directory: Path, node: str) -> KeyPair | None:
    pair = CertificateStore(directory, "kubelet-client").read()
    return _discard_foreign_pair(pair, node) if pair is not None else None


def _discard_foreign_pair(pair: KeyPair, node: str) -> KeyPair | None:
    """Return the key pair if its certificate is that of the node, and None otherwise: the kubelet rotates no other
    certificate."""
    return pair if common_name(pair.certificate) == f"system:node:{node}" else None


def _with_key_pair(access: Access, pair: KeyPair) -> Access:
    return replace(access, client_cert_pem=pair.certificate, client_key_pem=pair.key)


# -- rotation --------------------------------------------------------------------------------------------------------


_CLIENT_METRICS = (
    "kubelet_certificate_manager_client_ttl_seconds",
    "kubelet_certificate_manager_client_expiration_renew_errors",
)
_SERVER_METRICS = ("kubelet_certificate_manager_server_ttl_seconds", "kubelet_server_expiration_renew_errors")


async def keep_client_certificate(identity: KubeletIdentity, kubelet: Kubelet, transport: HttpTransport) -> None:
    """Request and rotate the client certificate until cancelled. Return at once if there is nothing to do."""
    if not identity.rotates and (identity.present is not None or identity.bootstrap is None):
        return
    store, has_own = CertificateStore(identity.directory, "kubelet-client"), identity.present is not None
    async with HttpTransport(identity.bootstrap or identity.access) as first:
        joining = Client(transport=first, clock=kubelet.clock, component=_COMPONENT)

        async def use(pair: KeyPair) -> None:
            nonlocal has_own
            await transport.replace_credentials(_with_key_pair(identity.access, pair))
            if not has_own and identity.kubeconfig is not None:
                _write(identity.kubeconfig, identity.access, store.current)
            has_own = True

        manager = CertificateManager(
            request=client_request(kubelet.config.name),
            client=lambda: kubelet.client if has_own else joining,
            store=store,
            clock=kubelet.clock,
            use=use,
            present=identity.present,
            rotates=identity.rotates,
        )
        export_certificate(kubelet.metrics.registry, manager, _CLIENT_METRICS)
        await manager.run()


async def keep_serving_certificate(identity: KubeletIdentity, kubelet: Kubelet, context: ssl.SSLContext) -> None:
    if not (identity.serving or identity.serving_by_name):
        return
    await kubelet.started.wait()
    store, machine, node = (
        CertificateStore(identity.directory, "kubelet-server"),
        kubelet.node.machine,
        kubelet.config.name,
    )
    present = store.read()
    if present is not None:
        context.load_cert_chain(store.current)

    async def use(pair: KeyPair) -> None:
        context.load_cert_chain(store.current)

    if identity.serving:
        request = serving_request(node, [machine.hostname or node], [machine.address, *machine.more_addresses])
    else:
        request = serving_request(node, [kubelet_server_name(node)], [])
    manager = CertificateManager(
        request=request,
        client=lambda: kubelet.client,
        store=store,
        clock=kubelet.clock,
        use=use,
        present=present,
    )
    export_certificate(kubelet.metrics.registry, manager, _SERVER_METRICS)
    await manager.run()


def _write(path: Path, access: Access, pair: Path) -> None:
    """Write the kubeconfig for the next start. It refers to the file in which the certificate is rotated."""
    config = kubeconfig.admin_config(name="default", url=access.server, ca=access.ca_pem, certificate=b"", key=b"")
    files = {"client-certificate": str(pair), "client-key": str(pair)}
    config["users"] = [{"name": "default-auth", "user": files}]
    config["contexts"] = [{"name": "default", "context": {"cluster": "default", "user": "default-auth"}}]
    kubeconfig.write(path, config)
