"""`sampan kube-apiserver`: the API server as a separate process, with the flags of the Kubernetes component."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from sampan.apiserver.config.server_config import TlsFiles
from sampan.cli.flags import parsers
from sampan.cli.flags.api_server import BIND_ALL_ADDRESSES, EMULATION_FLAGS, server_config, server_options
from sampan.cli.flags.flag_table import Flag, add_flags
from sampan.cli.flags.store import store_config
from sampan.cli.flags.without_effect import ComponentCommand
from sampan.cli.local_cluster.server_process import serve, set_up_logs
from sampan.cli.up import server_names
from sampan.cluster.assembly import Assembly
from sampan.cluster.certificate_renewal import CertificateRenewer
from sampan.cluster.cluster_config import APISERVER, ClusterConfig, StoreConfig
from sampan.cluster.pki import CA, SERVER, Pki, PkiRenewal
from sampan.machinery.cli_errors import CliError

_CERTIFICATE_FLAGS = (
    Flag(
        name="--tls-cert-file",
        metavar="F",
        help="Serving certificate of the HTTPS port. Default: a certificate signed by a generated CA.",
    ),
    Flag(name="--tls-private-key-file", metavar="F", help="Private key that belongs to --tls-cert-file."),
    Flag(
        name="--client-ca-file",
        metavar="F",
        help="CA certificates that client certificates are verified with; the subject becomes user and groups.",
    ),
    Flag(
        name="--cert-dir",
        metavar="DIR",
        help="Directory of the serving certificate, apiserver.crt and apiserver.key, which the server generates unless "
        "they exist.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """The store of an API server process, and the components and controllers that run beside the API server."""

    store: StoreConfig
    components: Sequence[str] = (APISERVER,)
    controllers: Sequence[str] = ()
    root_ca: bytes = b""
    """The CA certificate that the controllers publish to pods."""


def api_server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of kube-apiserver to a command."""
    return add_flags((*_CERTIFICATE_FLAGS, *EMULATION_FLAGS))(server_options(BIND_ALL_ADDRESSES)(command))


@click.command("kube-apiserver", cls=ComponentCommand)
@api_server_options
def command(**options: Any) -> None:
    """Run the Kubernetes API server.

    Without --etcd-servers all objects are kept in memory and lost when the process stops.
    """
    run_api_server(options, ControlPlane(store=store_config(options)))


def run_api_server(options: dict[str, Any], plane: ControlPlane) -> None:
    """Run the API server with the store, components and controllers of `plane` until the process is signalled to
    stop."""
    set_up_logs(options["verbosity"])
    began = time.monotonic()
    scratch = TemporaryDirectory(prefix="sampan-certs-")
    with scratch:
        renewals = CertificateRenewer()
        config = ClusterConfig(
            server=server_config(options, tls=_tls(options, Path(scratch.name), renewals)),
            renewals=renewals,
            store=plane.store,
            components=plane.components,
            controllers=plane.controllers,
            root_ca=plane.root_ca,
        )

        async def on_ready(cluster: Assembly) -> None:
            scratch.cleanup()  # the keys are loaded: delete the files before the process can be killed
            port = cluster.server.secure_port or cluster.server.insecure_port
            click.echo(f"kube-apiserver is ready on port {port} ({time.monotonic() - began:.2f} s)")

        serve(config, on_ready)


def _tls(options: dict[str, Any], scratch: Path, renewals: CertificateRenewer) -> TlsFiles:
    certificate, key = options["tls_cert_file"], options["tls_private_key_file"]
    pair = parsers.key_pair("--tls-cert-file", certificate, "--tls-private-key-file", key)
    client_ca = parsers.authority("--client-ca-file", options["client_ca_file"])
    if pair is not None:
        return TlsFiles(certificate=pair[0], key=pair[1], client_ca=client_ca)
    directory = Path(options["cert_dir"] or scratch)
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise CliError(f"--cert-dir: cannot create {directory}: {error.strerror}") from None
    pki = Pki(directory)
    if pki.is_foreign:
        return TlsFiles(certificate=pki.certificate(SERVER), key=pki.key(SERVER), client_ca=client_ca)
    names = server_names(options, options["service_cluster_ip_range"])
    pki.ensure(names=names, now=time.time())
    if options["cert_dir"]:
        renewals.add(PkiRenewal(pki=pki, names=names))
    return TlsFiles(
        certificate=pki.certificate(SERVER), key=pki.key(SERVER), client_ca=client_ca or pki.certificate(CA)
    )
