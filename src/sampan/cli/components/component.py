"""Run one component as a separate process: flags, access to the API server, leader election, and health port."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from sampan.api.feature_gates import FeatureGates
from sampan.cli.components.component_port import OPEN_PATHS, ComponentPort, Page, serve_port, tls_of
from sampan.cli.flags import parsers, server_tls
from sampan.cli.flags.flag_table import Flag, add_flags
from sampan.cli.local_cluster.server_process import on_signals, run_loop
from sampan.host.clock import Clock, RealClock
from sampan.machinery.cli_errors import CliError
from sampan.machinery.client import Client
from sampan.machinery.client.access import Access
from sampan.machinery.client.http import HttpTransport
from sampan.machinery.client.kubeconfig import KubeconfigError, load, load_in_cluster
from sampan.machinery.client.request_metrics import ClientRequestMetrics
from sampan.machinery.control_loop.leader_election import ElectionConfig, LeaderElector, LeadershipLost
from sampan.machinery.http.delegation import DelegatedAuth
from sampan.machinery.pki.server_tls import ServerTlsSettings
from sampan.machinery.telemetry.build_info import export_build_info, export_versions
from sampan.machinery.telemetry.feature_gates import export_feature_gates
from sampan.machinery.telemetry.health import HealthCheck
from sampan.machinery.telemetry.metrics import Metrics, export_process

ACCESS_FLAGS = (
    Flag(
        name="--kubeconfig",
        help="Kubeconfig file with the address of the API server and the credentials to use. Default: in-cluster "
        "configuration.",
        metavar="F",
    ),
    Flag(
        name="--master",
        help="Address of the API server; overrides the server in the kubeconfig.",
        default="",
        metavar="URL",
    ),
)
"""The flags that say how a component reaches the API server."""
VERBOSITY_FLAG = Flag(
    name="--v",
    short="-v",
    parameter="verbosity",
    help="Log verbosity: 0 logs warnings and errors, 2 also normal operation, 4 everything.",
    default=0,
    type=int,
)
_FLAGS = (
    *ACCESS_FLAGS,
    Flag(
        name="--bind-address",
        help="IP address on which health checks and metrics are served.",
        default="0.0.0.0",
        metavar="A",
    ),
    Flag(
        name="--tls-cert-file",
        help="Certificate of the HTTPS port for health checks and metrics. Default: a self-signed certificate.",
        metavar="F",
    ),
    Flag(name="--tls-private-key-file", help="Private key that belongs to --tls-cert-file.", metavar="F"),
    *server_tls.FLAGS,
    Flag(
        name="--authorization-always-allow-paths",
        help="Paths of the HTTPS port that need no authentication and authorization, comma-separated; a * at the end "
        "stands for any rest.",
        default=",".join(OPEN_PATHS),
        metavar="PATH,…",
    ),
    Flag(
        name="--leader-elect",
        help="Elect a leader through a Lease, and work only while this process is the leader.",
        default=True,
        is_switch=True,
    ),
    Flag(
        name="--leader-elect-lease-duration",
        help="How long other candidates wait after the last renewal before they try to become leader.",
        default="15s",
        metavar="T",
    ),
    Flag(
        name="--leader-elect-renew-deadline",
        help="How long the leader retries a failed renewal before it gives up leadership.",
        default="10s",
        metavar="T",
    ),
    Flag(
        name="--leader-elect-retry-period",
        help="Time between two attempts to acquire or renew the lease.",
        default="2s",
        metavar="T",
    ),
    Flag(
        name="--leader-elect-resource-name",
        help="Name of the Lease object. Default: the name of the component.",
        default="",
        metavar="NAME",
    ),
    Flag(
        name="--leader-elect-resource-namespace",
        help="Namespace of the Lease object.",
        default="kube-system",
        metavar="NS",
    ),
    VERBOSITY_FLAG,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentConfig:
    name: str
    access: Access
    election: ElectionConfig | None
    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
    tls: ServerTlsSettings = field(default_factory=ServerTlsSettings)
    open_paths: Sequence[str] = OPEN_PATHS
    feature_gates: FeatureGates = field(default_factory=FeatureGates)


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """The connection, clock, metrics and port of a component process, which its main function receives."""

    transport: HttpTransport
    access: Access
    clock: Clock
    metrics: Metrics = field(default_factory=Metrics)
    pages: dict[str, Page] = field(default_factory=dict)
    """Additional paths of the component's port, which require authorization."""

    requests: ClientRequestMetrics = field(default_factory=ClientRequestMetrics)
    """The metrics of the requests of all clients."""
    checks: dict[str, Sequence[HealthCheck]] = field(default_factory=dict)
    """The health checks by path, such as readyz. A path without any succeeds."""

    def list_checks(self, path: str) -> Sequence[HealthCheck]:
        return self.checks.get(path, ())

    def client(self, name: str) -> Client:
        return Client(transport=self.transport, clock=self.clock, component=name, metrics=self.requests)


Work = Callable[[Component], Awaitable[None]]
"""The main function of a component, which runs until it is cancelled."""


def component_options(port: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the flags common to clients of the API server. `port` is the default of
    --secure-port."""
    secure_port = Flag(
        name="--secure-port",
        help="Port that serves health checks and metrics over HTTPS; 0 disables it.",
        default=port,
        type=int,
    )
    return add_flags((*_FLAGS, secure_port))


def component_config(name: str, options: Mapping[str, Any]) -> ComponentConfig:
    names = ("tls_cert_file", "tls_private_key_file")
    pair = parsers.key_pair("--tls-cert-file", options[names[0]], "--tls-private-key-file", options[names[1]])
    certificate, key = pair or (None, None)
    return ComponentConfig(
        name=name,
        access=access_of(options["master"], options["kubeconfig"]),
        election=_election(name, options) if options["leader_elect"] else None,
        host=parsers.address("--bind-address", options["bind_address"]),
        port=parsers.port("--secure-port", options["secure_port"]),
        certificate=certificate,
        key=key,
        tls=server_tls.tls_settings(options),
        open_paths=_open_paths(options["authorization_always_allow_paths"]),
    )


def _open_paths(text: str) -> list[str]:
    flag = "--authorization-always-allow-paths"
    paths = parsers.words(flag, text)
    for path in paths:
        if "*" in path[:-1]:
            raise CliError(f"{flag}: {path}: only the last character may be *")
    return ["/" + path.lstrip("/") for path in paths]


def run_component(
    config: ComponentConfig, work: Work, *, shown: Mapping[str, object], pages: Mapping[str, Page] | None = None
) -> None:
    """Run a component until it is signalled to stop or loses the lease. `shown` is the content of /configz; `pages` are
    handlers of additional paths, which are served even before the component becomes leader."""
    run_loop(_run(config, work, shown, pages or {}))


async def _run(config: ComponentConfig, work: Work, shown: Mapping[str, object], pages: Mapping[str, Page]) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    clock = RealClock()
    try:
        async with AsyncExitStack() as stack:
            transport = await stack.enter_async_context(HttpTransport(config.access))
            component = Component(
                transport=transport,
                access=config.access,
                clock=clock,
                pages=dict(pages),
                requests=ClientRequestMetrics(host=urlsplit(config.access.server).netloc),
            )
            export_process(component.metrics)
            export_build_info(component.metrics)
            export_versions(component.metrics, config.feature_gates)
            component.requests.export(component.metrics)
            export_feature_gates(component.metrics, config.feature_gates)
            if config.port:
                await stack.enter_async_context(_port(config, component, shown))
            on_signals(loop, task.cancel)
            click.echo(f"{config.name} has started")
            await _run_as_leader(config, component, work)
    except asyncio.CancelledError:
        return
    except LeadershipLost as lost:
        raise CliError(str(lost)) from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CliError(f"--secure-port: {config.host}:{config.port} is in use; give another port") from None
        raise


def _port(config: ComponentConfig, component: Component, shown: Mapping[str, object]) -> Any:
    served = ComponentPort(
        metrics=component.metrics,
        delegation=DelegatedAuth(client=component.client(config.name), clock=component.clock),
        health={path: partial(component.list_checks, path) for path in ("healthz", "livez", "readyz")},
        config=shown,
        pages=component.pages,
        open_paths=config.open_paths,
    )
    tls = tls_of(config.certificate, config.key, name=config.name, settings=config.tls)
    return serve_port(served, host=config.host, number=config.port, tls=tls)


async def _run_as_leader(config: ComponentConfig, component: Component, work: Work) -> None:
    if config.election is None:
        return await work(component)
    elector = LeaderElector(client=component.client(config.name), clock=component.clock, config=config.election)
    component.metrics.function(
        "leader_election_master_status",
        "Whether this process is the leader (1) or not (0).",
        lambda: (((config.name,), float(elector.is_leader)),),
        ("name",),
    )
    await elector.run(lambda: work(component))


def access_of(master: str, kubeconfig: str | None) -> Access:
    """Return the address and the credentials of the API server. They come from the kubeconfig, from --master alone, or
    from the service account of a pod. --master overrides the address in a kubeconfig."""
    try:
        if kubeconfig:
            access = load(Path(kubeconfig))
        elif master:
            access = Access(server=master)
        else:
            access = load_in_cluster()
    except KubeconfigError as error:
        raise CliError(f"--kubeconfig: {error}") from None
    except OSError as error:
        raise CliError(f"--kubeconfig: {error.filename}: {error.strerror}") from None
    if master:
        access.server = master
    return access


def _election(name: str, options: Mapping[str, Any]) -> ElectionConfig:
    lease_s = parsers.duration_s("--leader-elect-lease-duration", options["leader_elect_lease_duration"])
    try:
        return ElectionConfig(
            name=options["leader_elect_resource_name"] or name,
            namespace=options["leader_elect_resource_namespace"],
            identity=f"{socket.gethostname()}_{os.getpid()}-{uuid.uuid4()}",
            lease_s=int(lease_s),
            renew_s=parsers.duration_s("--leader-elect-renew-deadline", options["leader_elect_renew_deadline"]),
            retry_s=parsers.duration_s("--leader-elect-retry-period", options["leader_elect_retry_period"]),
        )
    except ValueError as error:
        raise CliError(f"--leader-elect-lease-duration: {error}") from None
