"""`sampan store`: the store of a stopped cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from sampan.cli.command_classes import AliasGroup
from sampan.cli.flags import parsers
from sampan.cluster.cluster_config import StoreConfig
from sampan.host.clock import RealClock
from sampan.machinery.cli_errors import CliError

_EVENT_TTL_S = 3600.0


@click.group("store", cls=AliasGroup)
def command() -> None:
    """Copy the objects of a stopped cluster to another store."""


@command.command()
@click.argument("source")
@click.argument("target")
@click.option("--etcd-cafile", metavar="F", help="CA certificate that verifies the etcd servers.")
@click.option("--etcd-certfile", metavar="F", help="Client certificate for connections to etcd.")
@click.option("--etcd-keyfile", metavar="F", help="Private key that belongs to --etcd-certfile.")
def copy(
    source: str, target: str, etcd_cafile: str | None, etcd_certfile: str | None, etcd_keyfile: str | None
) -> None:
    """Copy all objects from SOURCE to TARGET, which must be empty.

    Each is the file of a SQLite store (state.db in the data directory of a cluster) or the addresses of etcd servers,
    comma-separated. Stop the API servers of both before. Objects get other resource versions, so that clients have to
    list them again: restart them, too.
    """
    if not _is_etcd(source) and not Path(source).is_file():
        raise CliError(f"{source}: there is no such file")
    if _is_etcd(source) and _is_etcd(target):
        raise CliError("SOURCE and TARGET are both etcd; use `etcdctl snapshot`")
    ca = parsers.file("--etcd-cafile", etcd_cafile)
    cert, key = parsers.file("--etcd-certfile", etcd_certfile), parsers.file("--etcd-keyfile", etcd_keyfile)

    def config(name: str) -> StoreConfig:
        if not _is_etcd(name):
            return StoreConfig(sqlite=Path(name), compaction_interval_s=0)
        servers = tuple(url.strip() for url in name.split(",") if url.strip())
        return StoreConfig(etcd_servers=servers, etcd_ca=ca, etcd_cert=cert, etcd_key=key, compaction_interval_s=0)

    copied = asyncio.run(_copy(config(source), config(target)))
    click.echo(f"copied {copied} objects from {source} to {target}")


def _is_etcd(name: str) -> bool:
    return name.startswith(("http://", "https://"))


async def _copy(source: StoreConfig, target: StoreConfig) -> int:
    from sampan.storage.transfer import copy_store

    clock = RealClock()
    async with source.open(clock) as old, target.open(clock) as new:
        return await copy_store(old, new, event_ttl_s=_EVENT_TTL_S)
