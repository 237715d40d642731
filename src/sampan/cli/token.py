"""`sampan token`: bootstrap tokens, with which nodes on other machines join a cluster (`kubeadm token`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from sampan.api.types.core_v1 import Secret
from sampan.cli.command_classes import AliasGroup
from sampan.cli.flags import parsers
from sampan.cli.local_cluster.cluster_dir import running_cluster_options, select_cluster
from sampan.cluster.join import grants
from sampan.cluster.join.token import (
    AUTHENTICATION,
    DEFAULT_GROUP,
    SIGNING,
    USAGES,
    BadToken,
    groups_of,
    is_one_use,
    new_token,
    parse_token,
    parse_token_id,
    secret_name,
    token_secret,
    usages_of,
)
from sampan.controllers.security.bootstrap_tokens import (
    BOOTSTRAP_TOKEN_SELECTION,
    NAMESPACE,
    ONE_USE_GROUP,
    expires_in_s,
    text_of,
)
from sampan.host.clock import RealClock
from sampan.kubectl.printers.columns import align_columns
from sampan.machinery import errors
from sampan.machinery.cli_errors import CliError
from sampan.machinery.client import Client
from sampan.machinery.client.access import Access
from sampan.machinery.client.http import HttpTransport
from sampan.machinery.client.kubeconfig import KubeconfigError, load

T = TypeVar("T")

_HEAD = "TOKEN\tTTL\tEXPIRES\tONE USE\tDESCRIPTION"
_WIDE_HEAD = "\tUSAGES\tEXTRA GROUPS"
_LOCAL_ONLY = (
    "the API server listens on loopback addresses only,\nand other machines cannot reach it. Start the cluster with:\n"
    "  sampan down{which} && sampan up{which} --bind-address 0.0.0.0"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """The access of `sampan token` to a cluster: its address, credentials, and networks."""

    access: Access
    address: str
    """The address and port at which other machines reach the API server. If they cannot reach it, the address for this
    machine."""
    warning: str = ""
    networks: grants.ClusterNetworks | None = None
    """The networks of the cluster, if it runs on this machine."""


def access_options(command: Callable[..., Any]) -> Callable[..., Any]:
    option = click.option(
        "--kubeconfig",
        "kubeconfig_path",
        metavar="F",
        help="Kubeconfig file of an administrator of the cluster. Default: that of the cluster of --name.",
    )
    return option(running_cluster_options(command))


@click.group("token", cls=AliasGroup)
def command() -> None:
    """Create, list and delete bootstrap tokens, with which nodes join."""


@command.command("create")
@click.argument("token", required=False)
@click.option(
    "--ttl", default="24h", show_default=True, metavar="D", help="How long the token is valid; 0 means for ever."
)
@click.option(
    "--usages",
    default=",".join(USAGES),
    show_default=True,
    metavar="LIST",
    help=f"Purposes for which the token is valid: {SIGNING}, {AUTHENTICATION}.",
)
@click.option(
    "--groups",
    default=DEFAULT_GROUP,
    show_default=True,
    metavar="LIST",
    help="Groups of a user who authenticates with the token, comma-separated.",
)
@click.option("--description", default="", metavar="TEXT", help="Text that describes what the token is for.")
@click.option("--one-use", is_flag=True, help="Let one node join with the token, and no other.")
@click.option("--print-join-command", is_flag=True, help="Print the command that joins a machine to the cluster.")
@access_options
def create(token: str | None, **options: Any) -> None:
    """Create a token and print it.

    The output contains the secret of the token and the hash of the cluster's CA: everything that `sampan join` needs
    except the address. TOKEN is a token ID.SECRET; by default it is random.
    """
    cluster = _cluster(options)
    usages = parsers.names("--usages", options["usages"], USAGES)
    expires = _expiry(options["ttl"])
    if options["one_use"] and AUTHENTICATION not in usages:
        raise CliError(f"--one-use: needs {AUTHENTICATION} among --usages")
    ca_hash = _ca_hash(cluster.access)
    join_token = new_token(ca_hash)
    if token is not None:
        chosen = _parse_token(token)
        join_token = type(join_token)(chosen.id, chosen.secret, ca_hash)
    secret = token_secret(
        join_token,
        expires=expires,
        usages=usages,
        groups=_groups(options["groups"]),
        description=options["description"],
        is_one_use=options["one_use"],
    )
    _run_with_client(cluster.access, lambda client: _create(client, cluster, secret))
    if cluster.warning:
        click.echo(f"Warning: {cluster.warning}", err=True)
    if options["print_join_command"]:
        click.echo(f"echo {join_token} | sampan join {cluster.address} --token-file -")
    else:
        click.echo(str(join_token))


@command.command("list")
@click.option("-o", "--output", type=click.Choice(["wide"]), help="Also show usages and groups of the tokens.")
@access_options
def list_tokens(output: str | None, **options: Any) -> None:
    """List tokens, without their secrets."""
    secrets = _run_with_client(_cluster(options).access, _secrets)
    now = time.time()
    is_wide = output == "wide"
    rows = [_row(secret, now, is_wide) for secret in sorted(secrets, key=lambda secret: secret.metadata.name)]
    for line in align_columns([_HEAD + _WIDE_HEAD * is_wide, *rows]):
        click.echo(line.rstrip())


@command.command("delete")
@click.argument("tokens", nargs=-1, required=True, metavar="TOKEN...")
@access_options
def delete(tokens: tuple[str, ...], **options: Any) -> None:
    """Delete tokens, given as their ids or as whole tokens."""
    try:
        ids = [parse_token_id(token) for token in tokens]
    except BadToken:
        raise CliError("TOKEN: want the id of a token (six lower-case letters and digits), or a token") from None
    access = _cluster(options).access
    for token_id in ids:
        try:
            _run_with_client(access, partial(_delete, name=secret_name(token_id)))
        except errors.NotFound:
            raise CliError(f"there is no token {token_id}") from None
        click.echo(f"token {token_id} deleted")


async def _create(client: Client, cluster: ClusterAccess, secret: Secret) -> None:
    """Create the token, after the roles and ConfigMaps that `sampan join` needs."""
    await grants.ensure_grants(client, grants.join_grants())
    await grants.revoke_slice_grants(client)
    await grants.ensure_config_map(client, grants.cluster_info(f"https://{cluster.address}", cluster.access.ca_pem))
    if cluster.networks is not None:
        await grants.ensure_config_map(client, grants.cluster_config(cluster.networks))
    try:
        created = await client.for_kind(Secret).create(secret)
    except errors.AlreadyExists:
        raise CliError(f"TOKEN: there is a token with the id {text_of(secret, 'token-id')} already") from None
    if is_one_use(created):
        await grants.ensure_grants(client, grants.one_use_grants(created))


async def _secrets(client: Client) -> list[Secret]:
    return list((await client.for_kind(Secret).list(BOOTSTRAP_TOKEN_SELECTION)).items)


async def _delete(client: Client, *, name: str) -> None:
    await client.for_kind(Secret).delete(name, NAMESPACE)


def _row(secret: Secret, now: float, is_wide: bool) -> str:
    remaining_s = expires_in_s(secret, now)
    ttl = "<forever>" if remaining_s == float("inf") else "<expired>" if remaining_s <= 0 else _age(remaining_s)
    groups = [group for group in groups_of(secret) if group != ONE_USE_GROUP]
    cells = [
        text_of(secret, "token-id"),
        ttl,
        text_of(secret, "expiration") or "<never>",
        "yes" if is_one_use(secret) else "no",
        text_of(secret, "description") or "<none>",
    ]
    if is_wide:
        cells += [",".join(usages_of(secret)) or "<none>", ",".join(groups) or "<none>"]
    return "\t".join(cells)


def _age(seconds: float) -> str:
    whole = int(seconds)
    for unit, length in (("h", 3600), ("m", 60)):
        if whole >= length:
            return f"{whole // length}{unit}"
    return f"{whole}s"


def _expiry(ttl: str) -> float | None:
    seconds = 0.0 if ttl == "0" else parsers.duration_s("--ttl", ttl)
    if seconds < 0:
        raise CliError("--ttl: cannot be negative")
    return time.time() + seconds if seconds else None


def _groups(text: str) -> list[str]:
    groups = [group.strip() for group in text.split(",") if group.strip()]
    if wrong := [group for group in groups if not group.startswith("system:bootstrappers:")]:
        raise CliError(f"--groups: {wrong[0]!r} must begin with system:bootstrappers:")
    return groups


def _parse_token(text: str) -> Any:
    try:
        return parse_token(text)
    except BadToken as error:
        raise CliError(f"TOKEN: {error}") from None


def _ca_hash(access: Access) -> str:
    from sampan.machinery.pki.certificates import public_key_hash

    if not access.ca_pem:
        raise CliError("--kubeconfig: has no certificate-authority-data, and the token could not pin the CA")
    return public_key_hash(access.ca_pem)


def _cluster(options: Mapping[str, Any]) -> ClusterAccess:
    try:
        if options["kubeconfig_path"]:
            access = load(Path(options["kubeconfig_path"]))
            url = urlsplit(access.server)
            return ClusterAccess(access=access, address=url.netloc if url.port else f"{url.netloc}:443")
        directory = select_cluster(options["data_dir"], options["cluster"])
        note = directory.read_note_if_running()
        if note is None or directory.is_joined:
            raise CliError(f"{directory.name} is not a cluster that runs on this machine; `sampan up` starts one")
        access = load(directory.kubeconfig)
    except KubeconfigError as error:
        raise CliError(f"--kubeconfig: {error}") from None
    if not note.url:
        raise CliError("--secure-port: the cluster serves no HTTPS, and nodes cannot join it")
    which = f" --name {note.name}" if note.name != "sampan" else ""
    return ClusterAccess(
        access=access,
        address=note.join_address or urlsplit(note.url).netloc,
        warning="" if note.join_address else _LOCAL_ONLY.format(which=which),
        networks=grants.ClusterNetworks(pod_cidrs=note.pod_cidrs, service_cidrs=note.service_cidrs),
    )


def _run_with_client(access: Access, work: Callable[[Client], Awaitable[T]]) -> T:
    async def main() -> T:
        async with HttpTransport(access) as transport:
            return await work(Client(transport=transport, clock=RealClock(), component="sampan-token"))

    return asyncio.run(main())
