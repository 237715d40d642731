"""`sampan kubelet`: the kubelet as a separate process, with the flags of the Kubernetes component."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from sampan.cli.components.component_port import tls_of
from sampan.cli.components.kubelet_access import (
    KubeletIdentity,
    identity_of,
    keep_client_certificate,
    keep_serving_certificate,
)
from sampan.cli.flags import parsers
from sampan.cli.flags.kubelet import agent_config, flags_file, kubelet_options, read_config, settings
from sampan.cli.flags.without_effect import ComponentCommand
from sampan.cli.local_cluster.server_process import on_signals, run_loop, set_up_logs
from sampan.cluster.cluster_cidrs import choose_pod_cidr
from sampan.host.activity import Activity
from sampan.host.clock import RealClock
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.server.ports import PortsConfig
from sampan.kubelet.server.view import ServerSettings
from sampan.machinery.cli_errors import CliError
from sampan.machinery.client import Client
from sampan.machinery.client.http import HttpTransport
from sampan.machinery.client.request_metrics import ClientRequestMetrics
from sampan.machinery.pki.server_tls import ServerTlsSettings, UnknownTlsName, server_context
from sampan.runtimes.choice import RuntimeChoice
from sampan.runtimes.names import AUTO, DOCKER, HOLLOW, OCI, RUNTIMES

if TYPE_CHECKING:
    from sampan.cluster.nodes.node_network import NodeNetwork
    from sampan.cluster.nodes.node_runtime import RuntimeConfig

NAME = "kubelet"


class _WithFlagsFile(ComponentCommand):
    """A command that prepends the flags of the flags file to the command line, which therefore overrides them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [*flags_file(), *args])


@click.command(NAME, cls=_WithFlagsFile)
@click.option(
    "--kubeconfig",
    "kubeconfig_path",
    metavar="F",
    help="Kubeconfig file with the address of the API server and the credentials of the kubelet.",
)
@click.option(
    "--bootstrap-kubeconfig",
    metavar="F",
    help="Kubeconfig file used to request a client certificate when the file of --kubeconfig does not exist.",
)
@click.option(
    "--api-servers",
    metavar="URL,…",
    help="Addresses of API servers to connect to without credentials, comma-separated.",
)
@click.option(
    "--cert-dir", metavar="DIR", help="Directory for the certificates of the kubelet. Default: pki below --root-dir."
)
@click.option(
    "--config",
    metavar="F",
    help="KubeletConfiguration file (kubelet.config.k8s.io/v1beta1). Flags override its fields.",
)
@click.option(
    "--root-dir",
    default="/var/lib/kubelet",
    show_default=True,
    metavar="DIR",
    help="Directory for the data of the kubelet.",
)
@click.option(
    "--pod-logs-dir",
    default="",
    metavar="DIR",
    help="Directory for the logs of pods. Default: /var/log/pods, or logs below another --root-dir.",
)
@click.option(
    "--image-dir",
    default="",
    metavar="DIR",
    help="Directory for container images of the oci runtime. Default: images below --root-dir.",
)
@click.option(
    "--runtime",
    type=click.Choice([runtime for runtime in RUNTIMES if runtime != HOLLOW]),
    default=AUTO,
    show_default=True,
    help="Container runtime; auto picks the best one available. Hollow nodes are run by `sampan up --runtime hollow`.",
)
@click.option(
    "--network-plugin",
    type=click.Choice(["", "cni", "kubenet"]),
    metavar="[cni|kubenet]",
    default="",
    help=(
        "What sets up the network of pods of a CRI runtime: its CNI configuration (cni) or Sampan, from the "
        "pod CIDR (kubenet). Default: cni."
    ),
)
@click.option(
    "--network-policy/--no-network-policy",
    default=True,
    show_default=True,
    help="Enforce NetworkPolicies, if the pods have addresses of their own and the credentials permit it.",
)
@kubelet_options
@click.option(
    "-v",
    "--v",
    "verbosity",
    type=int,
    default=0,
    help="Log verbosity: 0 logs warnings and errors, 2 also normal operation, 4 everything.",
)
def command(**options: Any) -> None:
    """Run the Kubernetes kubelet.

    It registers this machine as a node, and runs the pods that are bound to it.
    """
    set_up_logs(options["verbosity"])
    values = settings(options, read_config(options["config"]))
    root = Path(options["root_dir"]).absolute()
    config = agent_config(values, root, _logs(options, root))
    runtime = _runtime(options["runtime"], values["container-runtime-endpoint"])
    config = _with_images_and_pod_cidrs(config, runtime, options)
    identity = identity_of(options, values, config)
    ports = _ports(values, config, cluster_ca=(identity.bootstrap or identity.access).ca_pem)
    run_loop(_run(config, identity, runtime, options, ports))


def _with_images_and_pod_cidrs(config: AgentConfig, runtime: RuntimeChoice, options: Mapping[str, Any]) -> AgentConfig:
    """Set the image directory and the pod CIDRs, if Sampan manages them for this runtime."""
    is_ours = runtime.runtime in (OCI, DOCKER) or options["network_plugin"] == "kubenet"
    return replace(
        config,
        images=_images(options, config) if runtime.runtime == OCI else None,
        needs_pod_cidr=is_ours,
        own_pod_cidrs=[choose_pod_cidr(config.name)] if is_ours else (),
    )


def _images(options: Mapping[str, Any], config: AgentConfig) -> Path:
    return Path(options["image_dir"] or config.root / "images")


def _logs(options: Mapping[str, Any], root: Path) -> Path:
    if options["pod_logs_dir"]:
        return Path(options["pod_logs_dir"]).absolute()
    return Path("/var/log/pods") if root == Path("/var/lib/kubelet") else root / "logs"


def _runtime(requested: str, endpoint: str) -> RuntimeChoice:
    from sampan.cli.flags.nodes import find_usable_runtime

    choice, why_not = find_usable_runtime(requested, endpoint)
    if choice is None:
        raise CliError(f"{'--container-runtime-endpoint' if endpoint else '--runtime'}: {why_not}")
    return choice


async def _run(
    config: AgentConfig,
    identity: KubeletIdentity,
    runtime: RuntimeChoice,
    options: Mapping[str, Any],
    ports: PortsConfig,
) -> None:
    from sampan.cluster.nodes.node_runtime import RuntimeConfig, runtime_maker
    from sampan.kubelet.agent.kubelet import build_kubelet
    from sampan.kubelet.server.ports import serve_kubelet

    loop, task, clock = asyncio.get_running_loop(), asyncio.current_task(), RealClock()
    assert task is not None
    places = RuntimeConfig(
        node=config.name,
        directory=config.root / "runtime",
        images=_images(options, config),
        endpoint=runtime.endpoint,
        makes_network=options["network_plugin"] == "kubenet",
    )
    stop = asyncio.Event()
    try:
        async with (
            HttpTransport(identity.access, is_nobody=identity.is_nobody) as transport,
            _network(places, runtime, transport, options["network_policy"]) as network,
            build_kubelet(
                config=config,
                client=Client(
                    transport=transport,
                    clock=clock,
                    component=NAME,
                    metrics=ClientRequestMetrics(host=urlsplit(identity.access.server).netloc),
                ),
                clock=clock,
                make_runtime=runtime_maker(runtime.runtime, replace(places, isolation=network.isolation), clock),
            ) as kubelet,
            asyncio.TaskGroup() as group,
        ):
            on_signals(loop, stop.set)
            for work in (
                keep_client_certificate(identity, kubelet, transport),
                keep_serving_certificate(identity, kubelet, ports.tls),
                _print_ready(kubelet),
                serve_kubelet(kubelet, ports),
                kubelet.run(),
            ):
                group.create_task(work)
            await stop.wait()
            task.cancel()
    except asyncio.CancelledError:
        return


@asynccontextmanager
async def _network(
    places: RuntimeConfig, runtime: RuntimeChoice, transport: HttpTransport, has_policies: bool
) -> AsyncIterator[NodeNetwork]:
    """Run the network of the node for the duration of the block. Network policies are enforced if the runtime supports
    it and the credentials of the kubelet permit to read the policies."""
    from sampan.cluster.nodes.node_network import NodeNetworks, can_enforce_policies, check_policy_access
    from sampan.network.nodes import NodeAttachment

    clock = RealClock()
    client = Client(transport=transport, clock=clock, component=NAME)
    can_enforce = has_policies and can_enforce_policies(runtime.runtime)
    networks = NodeNetworks(
        components=(),
        client_for=lambda user: client,
        clock=clock,
        activity=Activity(),
        has_policies=can_enforce and await check_policy_access(client),
    )
    attachment = NodeAttachment(node=places.node, directory=places.directory, namespace=places.namespace, addresses=())
    async with networks:
        network = networks.network_of(attachment)
        async with network.running():
            yield network


async def _print_ready(kubelet: Any) -> None:
    await kubelet.started.wait()
    click.echo(f"kubelet has started: node {kubelet.config.name}, runtime {kubelet.runtime.name} (pid {os.getpid()})")


def _ports(values: Mapping[str, Any], config: AgentConfig, *, cluster_ca: bytes = b"") -> PortsConfig:
    """Return the ports defined by the flags or the configuration file of a kubelet. Unless they set a client CA, client
    certificates are verified with the CA of the API server, so that the API server itself is admitted."""
    certificate, key = values["tls-cert-file"], values["tls-private-key-file"]
    parsers.key_pair("--tls-cert-file", certificate, "--tls-private-key-file", key)
    parsers.authority("--client-ca-file", values["client-ca-file"])
    accepted = _parse_tls_settings(values)
    if values["rotate-server-certificates"] and not certificate:
        # TLS handshakes fail until the cluster has issued the serving certificate
        context = server_context(accepted)
    else:
        files = Path(certificate) if certificate else None, Path(key) if key else None
        context = tls_of(*files, name=config.name, settings=accepted)
    if values["client-ca-file"] or cluster_ca:
        file = values["client-ca-file"]
        context.load_verify_locations(file or None, cadata=None if file else cluster_ca.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
    return PortsConfig(
        tls=context,
        address=values["address"],
        port=values["port"],
        read_only_port=values["read-only-port"],
        cadvisor_port=values["cadvisor-port"],
        health_address=values["healthz-bind-address"],
        health_port=values["healthz-port"],
        allows_anonymous=values["anonymous-auth"],
        settings=ServerSettings(has_debugging=values["enable-debugging-handlers"]),
    )


def _parse_tls_settings(values: Mapping[str, Any]) -> ServerTlsSettings:
    flags = "--tls-min-version and --tls-cipher-suites"
    try:
        return ServerTlsSettings.parse(min_version=values["tls-min-version"], cipher_suites=values["tls-cipher-suites"])
    except UnknownTlsName as error:
        raise CliError(f"{flags}: {error}") from None
