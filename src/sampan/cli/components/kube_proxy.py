"""`sampan kube-proxy`: the service proxy as a separate process, with the flags of the Kubernetes component."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from sampan.api.feature_gates import FeatureGates
from sampan.api.types.core_v1 import Node
from sampan.cli.components.component import access_of
from sampan.cli.flags.kube_proxy import kube_proxy_configuration, kube_proxy_options
from sampan.cli.flags.parsers import output_file
from sampan.cli.flags.without_effect import ComponentCommand
from sampan.cli.local_cluster.server_process import on_signals, run_loop, set_up_logs
from sampan.host.clock import RealClock
from sampan.host.exception_groups import leaf_exceptions
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery.cli_errors import CliError
from sampan.machinery.client import Client, Selection
from sampan.machinery.client.access import Access
from sampan.machinery.client.http import HttpTransport
from sampan.machinery.client.request_metrics import ClientRequestMetrics
from sampan.machinery.informer import InformerFactory
from sampan.machinery.loopback_services import LoopbackServices, lowest_unprivileged_port
from sampan.machinery.telemetry.build_info import export_build_info
from sampan.machinery.telemetry.feature_gates import export_feature_gates
from sampan.machinery.telemetry.metrics import Metrics, export_process
from sampan.network.nft import nft_program
from sampan.network.proxy.kube_proxy_configuration import NFTABLES, USERSPACE, KubeProxyConfiguration, as_yaml

log = logging.getLogger(__name__)

NAME = "kube-proxy"


@click.command(NAME, cls=ComponentCommand)
@kube_proxy_options
def command(**options: Any) -> None:
    """Run the Kubernetes network proxy of this machine.

    It makes services reachable, with nftables or, without privileges, by listeners in user space.
    """
    set_up_logs(options["verbosity"])
    lack = _lack_of_nftables()
    configuration = kube_proxy_configuration(options, default_mode=USERSPACE if lack else NFTABLES)
    if options["write_config_to"]:
        _write(configuration, options["write_config_to"])
        return
    if options["cleanup"]:
        _clean_up(lack, configuration.masquerade_bit)
        return
    if configuration.mode != USERSPACE and lack:
        raise CliError(f"--proxy-mode: {configuration.mode} cannot be used: {lack}")
    if configuration.mode == USERSPACE and lack and not options["proxy_mode"]:
        log.warning("using the proxy mode userspace: %s", lack)
    _adjust_oom_score(configuration)
    if options["init_only"]:
        _initialize(configuration)
        return
    access = access_of(options["master"], configuration.clientConnection.kubeconfig)
    run_loop(_run(configuration, access))


def _lack_of_nftables() -> str:
    """Return why the nftables mode cannot be used; empty if it can."""
    if os.geteuid() != 0:
        return "nftables needs root"
    return "" if nft_program() else "nft is not installed: install the package nftables"


def _write(configuration: KubeProxyConfiguration, path: str) -> None:
    output_file("--write-config-to", path).write_text(as_yaml(configuration))
    click.echo(f"wrote the configuration to {path}")


def _clean_up(lack: str, masquerade_bit: int) -> None:
    """Remove all nftables tables of kube-proxy, and the rules that it added to other firewalls. `lack` says why
    nftables cannot be used."""
    from sampan.host.netlink.nftables import TransactionFailed
    from sampan.network.proxy.firewall import ServiceForwardRules
    from sampan.network.proxy.nftables.table_sync import remove_tables

    if os.geteuid() != 0:
        raise CliError(f"--cleanup: {lack}")
    try:
        remove_tables()
    except (TransactionFailed, OSError) as error:
        raise CliError(f"--cleanup: {error}") from None
    ServiceForwardRules(masquerade_mark=1 << masquerade_bit).remove()
    click.echo("removed the rules of kube-proxy")


def _initialize(configuration: KubeProxyConfiguration) -> None:
    from sampan.network.proxy.conntrack import apply_conntrack_sysctls

    if os.geteuid() != 0:
        raise CliError("--init-only: needs root")
    if configuration.mode != USERSPACE:
        apply_conntrack_sysctls(configuration.conntrack)


def _adjust_oom_score(configuration: KubeProxyConfiguration) -> None:
    if configuration.oomScoreAdj is None:
        return
    try:
        Path("/proc/self/oom_score_adj").write_text(str(configuration.oomScoreAdj))
    except OSError as error:
        log.info("cannot set oom_score_adj to %d: %s", configuration.oomScoreAdj, error.strerror)


async def _run(configuration: KubeProxyConfiguration, access: Access) -> None:
    from sampan.network.proxy.node_proxy import NodeChanged, NodeProxy, NodeProxyConfig

    loop, task, clock = asyncio.get_running_loop(), asyncio.current_task(), RealClock()
    assert task is not None
    on_signals(loop, task.cancel)
    name = configuration.hostnameOverride or socket.gethostname().lower()
    metrics = Metrics()
    export_process(metrics)
    export_build_info(metrics)
    export_feature_gates(metrics, FeatureGates())
    is_privileged = os.geteuid() == 0
    config = NodeProxyConfig(
        node_name=name,
        namespace=NetworkNamespace(),
        configuration=configuration,
        loopback=LoopbackServices(lowest_port=lowest_unprivileged_port(is_privileged=is_privileged)),
    )
    try:
        async with HttpTransport(access) as transport:
            requests = ClientRequestMetrics(host=urlsplit(access.server).netloc)
            requests.export(metrics)
            client = Client(transport=transport, clock=clock, component=NAME, metrics=requests)
            async with InformerFactory(client=client) as informers, asyncio.TaskGroup() as group:
                proxy = NodeProxy(
                    config=config,
                    client=client,
                    informers=informers,
                    nodes=informers.for_kind(Node, Selection(fields=f"metadata.name={name}")),
                    clock=clock,
                    metrics=metrics,
                )
                group.create_task(_announce(proxy.synced, name, configuration.mode))
                await proxy.run()
    except asyncio.CancelledError:
        return
    except BaseExceptionGroup as group:
        change = next((error for error in leaf_exceptions(group) if isinstance(error, NodeChanged)), None)
        if change is None:
            raise
        raise CliError(f"{change}: exiting, to be started again with the state of the node") from None


async def _announce(synced: asyncio.Event, name: str, mode: str) -> None:
    await synced.wait()
    click.echo(f"{NAME} has started: node {name}, mode {mode} (pid {os.getpid()})")
