"""`sampan kubelet`: the agent of one node as a process of its own, with the real one's flags."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from sampan.cli import kubeconfig
from sampan.cli.cluster_dir import write_private
from sampan.cli.failures import CliError
from sampan.cli.kubelet_flags import agent_config, flags_file, kubelet_options, read_config, settings
from sampan.cli.kubelet_ports import flag_ports
from sampan.cli.nodes_config import AUTO, HOLLOW, RUNTIMES
from sampan.cli.serving import on_signals, run_loop, set_up_logs
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.server.ports import PortsConfig
from sampan.machinery.client import Client
from sampan.machinery.client.access import Access
from sampan.machinery.client.http import HttpTransport
from sampan.machinery.client.kubeconfig import KubeconfigError, load
from sampan.machinery.clock import RealClock
from sampan.runtimes.choice import CRI, DOCKER, Choice

NAME = "kubelet"


class _WithFlagsFile(click.Command):
    """What stands in the flags file comes before what stands on the command line, which thereby goes before it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [*flags_file(), *args])


@click.command(NAME, cls=_WithFlagsFile)
@click.option("--kubeconfig", "kubeconfig_path", metavar="F", help="How to reach the API server, and as whom.")
@click.option("--bootstrap-kubeconfig", metavar="F", help="The same, to ask for a certificate with at first.")
@click.option("--api-servers", metavar="URL,…", help="The API server, without saying who one is.")
@click.option("--cert-dir", metavar="DIR", help="Where certificates are kept.  [ROOT-DIR/pki]")
@click.option("--config", metavar="F", help="A KubeletConfiguration.")
@click.option("--root-dir", default="/var/lib/kubelet", show_default=True, metavar="DIR", help="The kubelet's data.")
@click.option("--pod-logs-dir", default="", metavar="DIR", help="Where logs of pods are.  [/var/log/pods]")
@click.option("--image-dir", default="", metavar="DIR", help="Where images are.  [ROOT-DIR/images]")
@click.option("--runtime", type=click.Choice(RUNTIMES), default=AUTO, show_default=True, help="What runs pods.")
@kubelet_options
@click.option("-v", "--v", "verbosity", type=int, default=0, help="Log: 0 warnings, 2 what happens, 4 all.")
def command(**given: Any) -> None:
    """Run the agent of this machine: registers it as a node, and runs the pods that are bound to it."""
    set_up_logs(given["verbosity"])
    found = settings(given, read_config(given["config"]))
    root = Path(given["root_dir"]).absolute()
    config = agent_config(found, root, _logs(given, root))
    runtime = _runtime(given["runtime"], found["container-runtime-endpoint"])
    access = _access(given, config)
    run_loop(_run(config, access, runtime, given, flag_ports(found, config)))


def _logs(given: Mapping[str, Any], root: Path) -> Path:
    if given["pod_logs_dir"]:
        return Path(given["pod_logs_dir"]).absolute()
    return Path("/var/log/pods") if root == Path("/var/lib/kubelet") else root / "logs"


def _runtime(wanted: str, endpoint: str) -> Choice:
    from sampan.cli.node_flags import usable

    if wanted == HOLLOW:
        raise CliError("--runtime: hollow nodes are run by `sampan up --runtime hollow`")
    if endpoint:
        name = DOCKER if "docker" in endpoint else CRI
        return Choice(runtime=name if wanted == AUTO else wanted, place=endpoint)
    found, why_not = usable(wanted)
    if found is None:
        raise CliError(f"--runtime: {why_not}")
    return found


def _access(given: Mapping[str, Any], config: AgentConfig) -> Access | None:
    """None: there is no API server, and the node runs only pods of its own."""
    if given["api_servers"]:
        return Access(server=given["api_servers"].split(",")[0].strip())
    path = given["kubeconfig_path"]
    try:
        if path and (Path(path).exists() or not given["bootstrap_kubeconfig"]):
            return load(Path(path))
        if given["bootstrap_kubeconfig"]:
            access = asyncio.run(_bootstrapped(given, config))
            _keep(access, given, config)
            return access
    except KubeconfigError as error:
        raise CliError(f"--kubeconfig: {error}") from None
    raise CliError("--kubeconfig: which API server? (or --bootstrap-kubeconfig, or --api-servers)")


async def _bootstrapped(given: Mapping[str, Any], config: AgentConfig) -> Access:
    """Ask for a certificate with the bootstrap's rights."""
    from sampan.kubelet.agent.bootstrap import BootstrapFailed, client_certificate
    from sampan.machinery.certificates import make_key

    first = load(Path(given["bootstrap_kubeconfig"]))
    key = make_key().key
    async with HttpTransport(first) as transport:
        client = Client(transport=transport, clock=RealClock(), component=NAME)
        try:
            certificate = await client_certificate(client, config.name, key)
        except BootstrapFailed as failure:
            raise CliError(str(failure)) from None
    return Access(
        server=first.server,
        ca_pem=first.ca_pem,
        is_insecure=first.is_insecure,
        tls_server_name=first.tls_server_name,
        proxy_url=first.proxy_url,
        client_cert_pem=certificate,
        client_key_pem=key,
    )


def _keep(access: Access, given: Mapping[str, Any], config: AgentConfig) -> None:
    """For the next start."""
    pair = {"certificate": access.client_cert_pem, "key": access.client_key_pem}
    if given["kubeconfig_path"]:
        written = kubeconfig.admin_config(name="default", url=access.server, ca=access.ca_pem, **pair)
        kubeconfig.write(Path(given["kubeconfig_path"]), written)
    folder = Path(given["cert_dir"] or config.root / "pki")
    folder.mkdir(parents=True, exist_ok=True)
    write_private(folder / "kubelet-client-current.pem", access.client_cert_pem + access.client_key_pem)


async def _run(
    config: AgentConfig, access: Access | None, runtime: Choice, given: Mapping[str, Any], ports: PortsConfig
) -> None:
    from sampan.cli.node_runtime import RuntimePlaces, runtime_maker
    from sampan.kubelet.agent.kubelet import Kubelet
    from sampan.kubelet.server.ports import serve_kubelet

    assert access is not None
    loop, task, clock = asyncio.get_running_loop(), asyncio.current_task(), RealClock()
    assert task is not None
    places = RuntimePlaces(
        node=config.name,
        folder=config.root / "runtime",
        images=Path(given["image_dir"] or config.root / "images"),
        endpoint=runtime.place,
    )
    stop = asyncio.Event()
    try:
        async with HttpTransport(access) as transport:
            kubelet = Kubelet(
                config=config,
                client=Client(transport=transport, clock=clock, component=NAME),
                clock=clock,
                make_runtime=runtime_maker(runtime.runtime, places, clock),
            )
            on_signals(loop, stop.set)
            async with asyncio.TaskGroup() as group:
                group.create_task(_tell(kubelet))
                group.create_task(serve_kubelet(kubelet, ports))
                group.create_task(kubelet.run())
                await stop.wait()
                await kubelet.shut_down()
                task.cancel()
    except asyncio.CancelledError:
        return


async def _tell(kubelet: Any) -> None:
    await kubelet.ready.wait()
    click.echo(f"kubelet has started: node {kubelet.config.name}, runtime {kubelet.runtime.name} (pid {os.getpid()})")


__all__ = ["command"]
