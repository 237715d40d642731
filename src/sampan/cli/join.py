"""`sampan join`: make this machine a node of a cluster that runs on another machine."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from sampan.api import names
from sampan.cli.doctor import finding_text
from sampan.cli.flags import parsers
from sampan.cli.local_cluster import detached_process
from sampan.cli.local_cluster.cluster_dir import ClusterDir, RunningCluster, cluster_dir, cluster_options
from sampan.cli.local_cluster.cluster_registry import register_cluster
from sampan.cli.local_cluster.owner_process import acquire_lock, is_exiting
from sampan.cli.local_cluster.server_process import run_loop, set_up_logs
from sampan.cli.node import labels_of
from sampan.cluster.join.record import JoinRecord, read_record, write_record
from sampan.machinery.cli_errors import CliError
from sampan.network.mesh.config import BACKENDS
from sampan.runtimes.names import AUTO, HOLLOW, RUNTIMES

if TYPE_CHECKING:
    from sampan.cluster.join.discovery import ServerAddress
    from sampan.cluster.join.token import JoinToken
    from sampan.cluster.machine.machine_checks import CheckResult

_ALL_CHECKS = "all"
_MACHINE_CHECKS = frozenset(
    {"root", "cgroups", "oci runtime", "overlayfs", "nftables", "bridge and veth", "disk", "resolv.conf"}
)
"""The checks of `sampan doctor` that concern a machine with one node; `sampan join` skips all others."""


@click.command("join")
@click.argument("server", required=False)
@click.option("--token-file", metavar="F|-", help="File with the token, or - for standard input.")
@click.option("--ca-file", metavar="F", help="CA certificate of the cluster, if anonymous users cannot read it there.")
@click.option("--node-name", metavar="NAME", help="Name of the node. Default: the hostname of this machine.")
@click.option(
    "--node-ip", metavar="IP,…", help="Addresses of the node. Default: the source address of the route to SERVER."
)
@click.option("--port", type=int, help="Port of the kubelet of this node. Default: 10250.")
@click.option(
    "--label", "labels", multiple=True, metavar="K=V", help="Label KEY=VALUE of the node; can be given several times."
)
@click.option(
    "--runtime",
    type=click.Choice([name for name in RUNTIMES if name != HOLLOW]),
    help="Container runtime of the node. Default: the best one available.",
)
@click.option(
    "--container-runtime-endpoint",
    metavar="SOCKET",
    help="Socket of containerd, CRI-O or Docker. Default: the well-known sockets are tried.",
)
@click.option(
    "--pod-network",
    type=click.Choice(BACKENDS),
    help="How pods of different machines reach each other. Default: auto, which uses plain routes inside a subnet and "
    "a tunnel between subnets.",
)
@click.option(
    "--ignore-checks", default="", metavar="LIST", help="Checks whose failure does not prevent the join; all for all."
)
@click.option("-d", "--detach/--no-detach", "is_detached", help="Run the node in the background.")
@click.option(
    "-v",
    "--v",
    "verbosity",
    type=int,
    default=0,
    help="Log verbosity: 0 logs warnings and errors, 2 also normal operation.",
)
@cluster_options
def command(**options: Any) -> None:
    """Join this machine to a cluster as a node.

    SERVER is ADDRESS:PORT of the API server. The token comes from `sampan token create` on the cluster, and is needed
    once: later runs of `sampan join` need neither SERVER nor token. The node runs until Ctrl-C or, with --detach, until
    `sampan down`; its pods keep running when it is stopped with Ctrl-C. `sampan leave` undoes everything.
    """
    began = time.monotonic()
    directory = cluster_dir(options["data_dir"], options["name"])
    directory.check()
    if directory.is_cluster and not directory.is_joined:
        raise CliError(
            f"--data-dir: {directory.path} is that of a cluster of this machine; --name names another directory"
        )
    if (note := directory.read_note_if_running()) is not None and not is_exiting(note.pid):
        click.echo(
            f"{note.nodes} is already running (pid {note.pid}); `sampan down` stops it, `sampan leave` undoes it"
        )
        return
    set_up_logs(options["verbosity"])
    record = _prepare(directory, options)
    if options["is_detached"]:
        words = ["join", "--no-detach", "--data-dir", str(directory.path), "--name", options["name"]]
        note = detached_process.start(directory, [*words, "-v", str(options["verbosity"])])
        _report(note, time.monotonic() - began)
        click.echo(f"  log    {directory.log}")
        return
    _run(directory, options["name"], record, began)


def _run(directory: ClusterDir, name: str, record: JoinRecord, began: float) -> None:
    from sampan.cli.joined_node import JoinedNode

    lock = acquire_lock(directory, makes_file=True)
    try:
        directory.remove_note()

        def on_ready(note: RunningCluster) -> None:
            directory.write_note(note)
            register_cluster(name, directory.path)
            _report(note, time.monotonic() - began)

        run_loop(JoinedNode(directory=directory, name=name, record=record, on_ready=on_ready).run())
    finally:
        directory.remove_note()
        lock.release()


def _report(note: RunningCluster, took_s: float) -> None:
    click.echo(f"node {note.nodes} has joined {note.url} ({took_s:.2f} s, pid {note.pid})")
    click.echo(f"  listen {', '.join(note.listening)}")


# -- preparation -----------------------------------------------------------------------------------------------------


def _prepare(directory: ClusterDir, options: Mapping[str, Any]) -> JoinRecord:
    """Return the record of the node, after joining the cluster if this machine has not done so. A join that fails
    leaves nothing behind."""
    record = read_record(directory.join_record)
    if record is not None and _has_certificate(directory, record):
        changed = _with_options(record, options)
        if changed != record:
            write_record(directory.join_record, changed)
        return changed
    undo = directory.make()
    try:
        return _join(directory, options)
    except BaseException:
        undo()
        raise


def _has_certificate(directory: ClusterDir, record: JoinRecord) -> bool:
    from sampan.cli.joined_node import JoinedNodeFiles
    from sampan.machinery.pki.certificates import common_name, expiry

    pair = JoinedNodeFiles(directory).client_pair()
    is_own = pair is not None and common_name(pair.certificate) == f"system:node:{record.node}"
    return is_own and pair is not None and expiry(pair.certificate) > time.time()


def _with_options(record: JoinRecord, options: Mapping[str, Any]) -> JoinRecord:
    """Return the record with those settings that can be changed after the join."""
    from sampan.cluster.join.discovery import parse_server

    if options["node_name"] and options["node_name"] != record.node:
        raise CliError(f"--node-name: this machine has joined as {record.node}; `sampan leave` first")
    changes: dict[str, Any] = {}
    if options["server"]:
        changes["server"] = parse_server(options["server"]).url
    if options["node_ip"]:
        changes["node_ip"] = _node_ip(options["node_ip"])
    if options["labels"]:
        changes["labels"] = labels_of(options["labels"])
    changes |= {key: options[key] for key in ("port", "pod_network") if options[key] is not None}
    return msgspec.structs.replace(record, **changes)


def _join(directory: ClusterDir, options: Mapping[str, Any]) -> JoinRecord:
    """Check the machine and the server, request the client certificate, and write the files that the node needs to
    run."""
    from sampan.cli.flags.nodes import find_usable_runtime
    from sampan.cli.joined_node import CLIENT_CERTIFICATE, JoinedNodeFiles
    from sampan.cluster.join import discovery, preflight
    from sampan.cluster.join.bootstrap import bootstrap
    from sampan.kubelet.agent.certificate_manager import CertificateStore
    from sampan.machinery.client.access import Access
    from sampan.machinery.pki.private_files import write_private

    if not options["server"]:
        raise CliError("SERVER: this machine has not joined a cluster yet: which ADDRESS:PORT has its API server?")
    server, token = discovery.parse_server(options["server"]), _token(options["token_file"])
    node, port = _node_name(options["node_name"]), options["port"] or 10250
    choice, why_not = find_usable_runtime(options["runtime"] or AUTO, options["container_runtime_endpoint"] or "")
    if choice is None:
        raise CliError(f"--runtime: {why_not}")
    ignored = _parse_ignored_checks(options["ignore_checks"])
    _report_checks([*_machine_checks(directory), preflight.check_ports(preflight.used_ports([port]))], ignored)
    link = preflight.read_link(server)
    discovered = _discover(server, token, options["ca_file"])
    # check the clock first: if it is wrong, valid certificates are rejected
    _report_checks([preflight.check_clock(discovered.server_time, time.time())], ignored)
    context = discovery.create_tls_context(discovered.ca_pem)
    discovery.get(server, "/version", context)
    large = preflight.probe_large_response(server, context)
    existing = preflight.fetch_node(server, context, token, node)
    _report_checks([preflight.check_mtu(link, has_large_response=large), preflight.check_name(node, existing)], ignored)
    access = Access(server=server.url, ca_pem=discovered.ca_pem, token=token.bearer)
    pair, networks = asyncio.run(bootstrap(access, node))
    _report_checks([preflight.check_overlaps(link.address, [*networks.pod_cidrs, *networks.service_cidrs])], ignored)
    record = JoinRecord(
        server=server.url,
        node=node,
        pod_cidrs=list(networks.pod_cidrs),
        service_cidrs=list(networks.service_cidrs),
        dns_domain=networks.dns_domain,
        runtime=choice.runtime,
        endpoint=choice.endpoint,
        pod_network=options["pod_network"] or BACKENDS[0],
        labels=labels_of(options["labels"]),
        node_ip=_node_ip(options["node_ip"]) if options["node_ip"] else "",
        port=port,
    )
    directory.pki.mkdir(mode=0o700, exist_ok=True)
    write_private(JoinedNodeFiles(directory).ca, discovered.ca_pem)
    CertificateStore(directory.pki, CLIENT_CERTIFICATE).write(pair, time.time())
    write_record(directory.join_record, record)
    return record


def _discover(server: ServerAddress, token: JoinToken, ca_file: str | None) -> Any:
    from sampan.cluster.join import discovery

    if not ca_file:
        return discovery.discover(server, token)
    path = parsers.authority("--ca-file", ca_file)
    assert path is not None
    certificates = discovery.certificates_in(path.read_bytes())
    ca_pem = (
        discovery.select_pinned_certificates(certificates, token.ca_hash, ca_file)
        if token.ca_hash
        else b"".join(certificates)
    )
    response = discovery.get(server, "/version", discovery.create_tls_context(ca_pem))
    return discovery.DiscoveredCluster(ca_pem=ca_pem, server_time=response.server_time)


def _machine_checks(directory: ClusterDir) -> list[CheckResult]:
    from sampan.cluster.machine.machine_checks import check_machine
    from sampan.cluster.machine.machine_state import read_state

    results = check_machine(asyncio.run(read_state(directory.path)))
    return [result for result in results if result.name in _MACHINE_CHECKS]


def _report_checks(results: Sequence[CheckResult], ignored: Sequence[str]) -> None:
    """Print warnings and errors of checks. Raise CliError if a failed check is not in `ignored`."""
    from sampan.cluster.machine.machine_checks import CheckLevel

    failed = []
    for result in results:
        is_ignored = _ALL_CHECKS in ignored or result.name in ignored
        if result.level is CheckLevel.ERROR and not is_ignored:
            failed.append(result)
        elif result.level is not CheckLevel.OK:
            click.echo(f"Warning: {finding_text(result)}", err=True)
    if failed:
        for result in failed:
            click.echo(f"Failed check: {finding_text(result)}", err=True)
        refused = ",".join(result.name for result in failed)
        raise CliError(f"this machine cannot join yet; mend the above, or use --ignore-checks '{refused}'")


def _parse_ignored_checks(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _token(path: str | None) -> JoinToken:
    from sampan.cluster.join.token import BadToken, parse_token

    if not path:
        raise CliError("--token-file: joining needs a token: `sampan token create --print-join-command` on the cluster")
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"--token-file: cannot read {path}: {error}") from None
    try:
        return parse_token(text)
    except BadToken as error:
        raise CliError(f"--token-file: {error}") from None


def _node_name(text: str | None) -> str:
    name = (text or socket.gethostname()).strip().lower()
    if errors := names.dns1123_subdomain(name):
        raise CliError(f"--node-name: {name!r}: {errors[0]}")
    if name in ("localhost", "localhost.localdomain"):
        raise CliError(f"--node-name: the hostname of this machine is {name!r}; choose a name for the node")
    return name


def _node_ip(text: str) -> str:
    return ",".join(parsers.address("--node-ip", word.strip()) for word in text.split(","))
