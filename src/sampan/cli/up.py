"""`sampan up`: start a cluster in one process, in the foreground or detached."""

from __future__ import annotations

import dataclasses
import logging
import os
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from sampan.api.feature_gates import LEVEL, LEVELS
from sampan.api.kubernetes_version import MAJOR
from sampan.apiserver.bootstrap import first_address
from sampan.apiserver.config.server_config import TlsFiles
from sampan.apiserver.proxy.kubelets import KubeletAccess
from sampan.cli.command_classes import GroupedCommand
from sampan.cli.flags import parsers
from sampan.cli.flags.api_server import BIND_LOOPBACK, server_config, server_options
from sampan.cli.flags.dns import DNS_FLAGS, dns_config
from sampan.cli.flags.flag_table import add_flags, switch
from sampan.cli.flags.ingress import INGRESS_FLAGS, ingress_config
from sampan.cli.flags.node_controllers import node_controller_settings, range_options
from sampan.cli.flags.nodes import node_options, nodes_config
from sampan.cli.flags.profiles import profile_option
from sampan.cli.flags.scheduler import scheduler_options, scheduler_settings
from sampan.cli.flags.store import store_config
from sampan.cli.local_cluster import detached_process, rootless
from sampan.cli.local_cluster.cluster_dir import ClusterDir, RunningCluster, cluster_dir, cluster_options
from sampan.cli.local_cluster.cluster_registry import register_cluster
from sampan.cli.local_cluster.data_version import check_version, write_version
from sampan.cli.local_cluster.listen_addresses import (
    certificate_names,
    kubelet_address,
    server_addresses,
)
from sampan.cli.local_cluster.owner_process import acquire_lock
from sampan.cli.local_cluster.ready_report import describe_cluster, print_ready, ready_text
from sampan.cli.local_cluster.remembered_flags import SECURE_PORT, RememberedFlags
from sampan.cli.local_cluster.rootless import OuterProcess
from sampan.cli.local_cluster.server_process import PortInUseError, exit_process, serve, set_up_logs
from sampan.cli.local_cluster.start_progress import PrintedProgress, process_start
from sampan.cli.local_cluster.sudo_user import hand_over, sudo_user
from sampan.cluster import kubeconfig
from sampan.cluster.assembly import Assembly
from sampan.cluster.cluster_config import (
    APISERVER,
    COMPONENTS,
    KUBELET,
    ClusterConfig,
    DashboardConfig,
    StoreConfig,
)
from sampan.cluster.leadership import LeadershipConfig
from sampan.cluster.machine.loopback_range import loopback_addresses
from sampan.cluster.nodes.node_summary import node_summary
from sampan.cluster.pki import ACCOUNTS, ADMIN, CA, KUBELET_CLIENT, SERVER, Pki, PkiRenewal, with_front_proxy
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery.cli_errors import CliError

log = logging.getLogger(__name__)

_SERVICE_NAMES = tuple("kubernetes" + end for end in ("", ".default", ".default.svc"))


_MAX_PORT_RETRIES = 5

_GROUPS = (
    ("Flags that most clusters need", ("name", "nodes", "runtime", "is_detached", SECURE_PORT, "merge_kubeconfig")),
    (
        "Cluster",
        (
            "data_dir",
            "profile",
            "kubernetes_version",
            "store",
            "components",
            "controllers",
            "leader_elect",
            "bind_address",
            "advertise_address",
            "kubeconfig_out",
            "forget_flags",
            "verbosity",
        ),
    ),
    (
        "Nodes",
        ("container_runtime_endpoint", "hollow_stages", "hollow_events"),
    ),
    (
        "Network",
        (
            "node_network",
            "network_policy",
            "pod_network",
            "ingress",
            "ingress_http_port",
            "ingress_https_port",
            "service_cluster_ip_range",
            "service_node_port_range",
            "cluster_cidr",
            "allocate_node_cidrs",
            "node_cidr_mask_size",
            "node_cidr_mask_size_ipv4",
            "node_cidr_mask_size_ipv6",
            "cluster_domain",
            "resolv_conf",
            "dns_upstream",
            "dns_stub_domain",
            "dns_client_cidrs",
            "dns_port",
        ),
    ),
    (
        "Scheduler",
        (
            "scheduler_config",
            "algorithm_provider",
            "policy_config_file",
            "policy_configmap",
            "policy_configmap_namespace",
        ),
    ),
)


@click.command("up", cls=GroupedCommand, groups=_GROUPS, remainder="API server, as kube-apiserver")
@cluster_options
@profile_option
@click.option(
    "--kubernetes-version",
    type=click.Choice([f"{MAJOR}.{level}" for level in LEVELS]),
    default=f"{MAJOR}.{LEVEL}",
    show_default=True,
    help="Version of Kubernetes as which the cluster behaves: its APIs, features and defaults.",
)
@click.option(
    "--store",
    type=click.Choice(["sqlite", "memory"]),
    default="sqlite",
    show_default=True,
    help="Embedded store for the objects: sqlite is durable, memory is lost on exit.",
)
@click.option(
    "--components",
    default=",".join(COMPONENTS),
    show_default=True,
    metavar="LIST",
    help="Components to run, comma-separated.",
)
@click.option(
    "--controllers",
    default="*,bootstrap-signer-controller,token-cleaner-controller",
    show_default=True,
    metavar="LIST",
    help="Controllers to run: * for all, NAME to enable one, -NAME to disable one.",
)
@node_options
@range_options
@add_flags(DNS_FLAGS)
@add_flags(INGRESS_FLAGS)
@scheduler_options("--scheduler-config")
@click.option(
    "--leader-elect",
    **switch(
        None,
        ("Run controllers and scheduler only while holding a leader election lease. Default: on with --etcd-servers."),
    ),
)
@click.option("-d", "--detach/--no-detach", "is_detached", help="Run the cluster in the background.")
@click.option("--kubeconfig-out", metavar="F", help="Write a second copy of the admin kubeconfig to this file.")
@click.option(
    "--merge-kubeconfig",
    is_flag=True,
    help="Add the cluster to $KUBECONFIG or ~/.kube/config, as the current context, while it runs.",
)
@click.option(
    "--forget-flags", is_flag=True, help="Use the defaults instead of the flags of the last start of this cluster."
)
@server_options(BIND_LOOPBACK)
def command(**options: Any) -> None:
    """Start a cluster.

    It runs until Ctrl-C or, with --detach, until `sampan down`. The next start of a cluster remembers its nodes,
    runtime, components, port and address ranges.
    """
    began = process_start()
    directory = cluster_dir(options["data_dir"], options["name"])
    directory.check()
    if options["kubeconfig_out"]:
        parsers.output_file("--kubeconfig-out", options["kubeconfig_out"])
    if directory.is_joined:
        raise CliError(f"--data-dir: {directory.path} is that of a node that joined a cluster; --name starts a cluster")
    check_version(directory)
    if options["is_detached"]:
        note = _start_detached(directory, directory.make(), shows_steps=not options["profile"])
        if note is not None:
            _report(directory, options, note, time.monotonic() - began)
            return
    completed = RememberedFlags(directory.flags, NetworkNamespace()).complete(options, forgets=options["forget_flags"])
    if reason := rootless.reason_to_run_again(completed):
        click.echo(reason)
        rootless.run_again([*sys.argv[1:], "--no-detach"])
    _run(directory, options, began, directory.make())


def _report(directory: ClusterDir, options: dict[str, Any], note: RunningCluster, took_s: float) -> None:
    """Print the description of a cluster that started in the background. With a profile, which scripts use, print one
    line."""
    if options["profile"]:
        click.echo(ready_text(note, took_s) + f": export KUBECONFIG={note.kubeconfig}")
        return
    print_ready(note, took_s)
    sudo = "" if sudo_user() is None else "sudo "
    click.echo(f"  log    {directory.log}\n  stop   {sudo}sampan down{_format_cluster_flag(options)}")


def _run(directory: ClusterDir, options: dict[str, Any], began: float, undo: Callable[[], None]) -> None:
    """Run the cluster in this process. `undo` is called if it fails to start."""
    lock = acquire_lock(directory, makes_file=True)
    is_up = False
    merged = _find_user_kubeconfig() if options["merge_kubeconfig"] else None
    try:
        directory.remove_note()  # the process ID in an old note may be that of another process now
        outer = rootless.outer_process()
        remembered = RememberedFlags(directory.flags, outer.network if outer is not None else NetworkNamespace())
        set_up_logs(options["verbosity"])
        completed, config = _complete(directory, remembered, options, outer)

        assemblies: list[Assembly] = []

        async def on_ready(cluster: Assembly) -> None:
            nonlocal is_up
            assemblies.append(cluster)  # keep the objects of the cluster from being freed before the lock is released
            nodes = await node_summary(cluster.client("up"), cluster.config.nodes)
            note = describe_cluster(directory, options["name"], cluster, nodes, outer)
            if note.pods_warning:
                log.warning("%s", note.pods_warning)
            note.merged_kubeconfig, note.recalled_flags = str(merged or ""), remembered.recalled
            write = partial(_write_kubeconfigs, directory, completed, note.url or note.insecure_url, merged)
            write()
            names = server_names(completed, config.server.service_cluster_ip_range)
            config.renewals.add(PkiRenewal(pki=Pki(directory.pki), names=names, on_renewed=write))
            register_cluster(options["name"], directory.path)
            remembered.save()
            try:
                write_version(directory)
                directory.write_note(note)  # the last file: a process in the foreground waits for it
            except OSError as error:  # with a full disk the cluster can run, and objects can be deleted
                log.warning("cannot record the running process in %s: %s", directory.path, error.strerror)
            directory.hand_over()
            is_up = True
            print_ready(note, time.monotonic() - began)

        progress = PrintedProgress()
        progress.add("set-up", time.monotonic() - began)  # the time for imports, flags and certificates
        for is_last in (*[False] * _MAX_PORT_RETRIES, True):
            try:
                serve(config, on_ready, progress)
                break
            except PortInUseError:  # another program has taken the port since it was chosen
                if is_last or not remembered.has_chosen_port:
                    raise
                completed, config = _complete(directory, remembered, options, outer)
    finally:
        directory.remove_note()
        if is_up and merged is not None:
            kubeconfig.unmerge(merged, options["name"])
        if not is_up:
            undo()
        lock.release()
    exit_process()


def _complete(
    directory: ClusterDir, remembered: RememberedFlags, options: dict[str, Any], outer: OuterProcess | None
) -> tuple[dict[str, Any], ClusterConfig]:
    """Return the options with remembered values and a free port, and the configuration of the cluster."""
    completed = remembered.complete(options, forgets=options["forget_flags"])
    return completed, _config(directory, completed, outer)


def _start_detached(directory: ClusterDir, undo: Callable[[], None], *, shows_steps: bool) -> RunningCluster | None:
    """Start the cluster in the background. Return None in the new process, which has to run the cluster."""
    lock = acquire_lock(directory)
    lock.release()
    directory.remove_note()
    try:
        return detached_process.fork(directory, shows_steps=shows_steps)
    except detached_process.ClusterStartFailed:
        if lock.acquire():
            undo()
            lock.release()
        raise


def _config(directory: ClusterDir, options: dict[str, Any], outer: OuterProcess | None) -> ClusterConfig:
    options = {**options, **(rootless.inner_options(options) if outer is not None else {})}
    components = parsers.names("--components", options["components"], COMPONENTS)
    if APISERVER not in components:
        raise CliError(f"--components: {APISERVER} cannot be left out")
    nodes = nodes_config(options, components, directory)
    pki = Pki(directory.pki)
    try:
        names = server_names(options, options["service_cluster_ip_range"])
        pki.ensure(names=names, now=time.time())
    except ValueError as error:
        raise CliError(f"--data-dir: {directory.pki} has a certificate or key that cannot be used: {error}") from None
    tls = TlsFiles(certificate=pki.certificate(SERVER), key=pki.key(SERVER), client_ca=pki.certificate(CA))
    server = server_config(options, tls=tls, addresses=server_addresses(options, nodes))
    kubelets = server.kubelets or KubeletAccess()
    if kubelets.certificate is None:
        kubelets = dataclasses.replace(
            kubelets, certificate=pki.certificate(KUBELET_CLIENT), key=pki.key(KUBELET_CLIENT)
        )
    if kubelets.ca is None:
        kubelets = dataclasses.replace(kubelets, ca=pki.certificate(CA), verifies_node_names=True)
    server = dataclasses.replace(
        server,
        networks=(outer.network, NetworkNamespace()) if outer is not None else server.networks,
        has_bootstrap_tokens=options["enable_bootstrap_token_auth"] is not False,
        service_account_key=server.service_account_key or pki.key(ACCOUNTS),
        kubelets=kubelets,
    )
    server = with_front_proxy(server, pki)
    store = store_config(options)
    if not store.etcd_servers and options["store"] == "sqlite":
        store = dataclasses.replace(store, sqlite=directory.database)
    return ClusterConfig(
        server=server,
        store=store,
        components=components,
        controllers=parsers.controllers("--controllers", options["controllers"]),
        root_ca=pki.certificate(CA).read_bytes(),
        signing_ca=(pki.certificate(CA), pki.key(CA)),
        nodes=nodes,
        kubelet_address=kubelet_address(options),
        machine_network=outer.network if outer is not None else NetworkNamespace(),
        controller_settings={"local_volume_root": str(directory.volumes), **node_controller_settings(options)},
        has_default_storage_class=KUBELET in components,
        scheduler=scheduler_settings("--scheduler-config", options),
        leader_election=_election(options, store),
        dns=dns_config(options),
        ingress=ingress_config(options, components, nodes),
        dashboard=DashboardConfig(cluster_name=options["name"], sessions=directory.dashboard_sessions),
    )


def _election(options: dict[str, Any], store: StoreConfig) -> LeadershipConfig | None:
    """Return the leader election settings. By default it is enabled for a store that other processes may share."""
    is_wanted = options["leader_elect"] if options["leader_elect"] is not None else bool(store.etcd_servers)
    return LeadershipConfig() if is_wanted else None


def server_names(options: dict[str, Any], service_range: str) -> list[str]:
    """Return the names and addresses in the serving certificate."""
    service = first_address(parsers.network("--service-cluster-ip-range", service_range))
    full_name = f"{_SERVICE_NAMES[-1]}.{options.get('cluster_domain') or 'cluster.local'}"
    own = [*_SERVICE_NAMES, full_name, "localhost", socket.gethostname(), "127.0.0.1", "::1", service]
    if os.geteuid() != 0:
        own += loopback_addresses(service)
    return list(dict.fromkeys([*own, *certificate_names(options)]))


def _find_user_kubeconfig() -> Path:
    """Return the kubeconfig of the user that --merge-kubeconfig changes: the first one in $KUBECONFIG, if it is set."""
    named = [part for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    user = sudo_user()
    home = Path.home() if user is None else Path(user.pw_dir)
    return Path(named[0]).absolute() if named else home / ".kube/config"


def _write_kubeconfigs(directory: ClusterDir, options: dict[str, Any], url: str, merged: Path | None) -> None:
    pki = Pki(directory.pki)
    config = kubeconfig.admin_config(
        name=options["name"],
        url=url,
        ca=pki.certificate(CA).read_bytes(),
        certificate=pki.certificate(ADMIN).read_bytes(),
        key=pki.key(ADMIN).read_bytes(),
    )
    kubeconfig.write(directory.kubeconfig, config)
    directory.hand_over()
    if options["kubeconfig_out"]:
        kubeconfig.write(Path(options["kubeconfig_out"]), config)
        hand_over([Path(options["kubeconfig_out"])])
    if merged is not None:
        kubeconfig.merge(merged, config)
        hand_over([merged.parent, merged])


def _format_cluster_flag(options: dict[str, Any]) -> str:
    if options["data_dir"] is not None:
        return f" --data-dir {options['data_dir']}"
    return f" --name {options['name']}" if options["name"] != "sampan" else ""
