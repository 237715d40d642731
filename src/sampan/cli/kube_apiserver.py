"""`sampan kube-apiserver`: the API server as a separate process, with the flags of the Kubernetes component."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from sampan.apiserver.config.server_config import TlsFiles
from sampan.cli import flags
from sampan.cli.failures import CliError
from sampan.cli.server_flags import BIND_EVERYWHERE, server_config, server_options, store_config
from sampan.cli.server_process import serve, set_up_logs
from sampan.cli.up import server_names
from sampan.cluster.assembly import APISERVER, Assembly, ClusterConfig
from sampan.cluster.certificate_renewal import Renewals
from sampan.cluster.pki import CA, SERVER, KeptPki, Pki


@click.command("kube-apiserver")
@click.option(
    "--tls-cert-file",
    metavar="F",
    help="Serving certificate of the HTTPS port. Default: a certificate signed by a generated CA.",
)
@click.option("--tls-private-key-file", metavar="F", help="Private key that belongs to --tls-cert-file.")
@click.option(
    "--client-ca-file",
    metavar="F",
    help="CA certificates that client certificates are verified with; the subject becomes user and groups.",
)
@click.option("--cert-dir", metavar="DIR", help="Directory for the certificates that the server generates.")
@server_options(BIND_EVERYWHERE)
def command(**options: Any) -> None:
    """Run the Kubernetes API server.

    Without --etcd-servers all objects are kept in memory and lost when the process stops.
    """
    set_up_logs(options["verbosity"])
    began = time.monotonic()
    scratch = TemporaryDirectory(prefix="sampan-certs-")
    with scratch:
        renewals = Renewals()
        config = ClusterConfig(
            server=server_config(options, tls=_tls(options, Path(scratch.name), renewals)),
            renewals=renewals,
            store=store_config(options),
            components=(APISERVER,),
        )

        async def on_ready(cluster: Assembly) -> None:
            scratch.cleanup()  # everything is loaded, so delete the keys now, before the process may be killed
            port = cluster.server.secure_port or cluster.server.insecure_port
            click.echo(f"kube-apiserver is ready on port {port} ({time.monotonic() - began:.2f} s)")

        serve(config, on_ready)


def _tls(options: dict[str, Any], scratch: Path, renewals: Renewals) -> TlsFiles:
    certificate, key = options["tls_cert_file"], options["tls_private_key_file"]
    pair = flags.key_pair("--tls-cert-file", certificate, "--tls-private-key-file", key)
    client_ca = flags.authority("--client-ca-file", options["client_ca_file"])
    if pair is not None:
        return TlsFiles(certificate=pair[0], key=pair[1], client_ca=client_ca)
    directory = Path(options["cert_dir"] or scratch)
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise CliError(f"--cert-dir: cannot create {directory}: {error.strerror}") from None
    pki = Pki(directory)
    names = server_names(options, options["service_cluster_ip_range"])
    pki.ensure(names=names, now=time.time())
    if options["cert_dir"]:
        renewals.add(KeptPki(pki=pki, names=names))
    return TlsFiles(
        certificate=pki.certificate(SERVER), key=pki.key(SERVER), client_ca=client_ca or pki.certificate(CA)
    )
