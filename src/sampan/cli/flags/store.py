"""The flags of kube-apiserver and `sampan up` for the store: the connection to etcd, compaction and encryption."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sampan.cli.flags import parsers
from sampan.cli.flags.flag_table import Flag
from sampan.cluster.cluster_config import StoreConfig
from sampan.machinery.cli_errors import CliError

FLAGS = (
    Flag(
        name="--etcd-servers",
        help="Addresses of etcd servers, comma-separated, to use instead of the embedded store.",
        default="",
        metavar="URL,…",
    ),
    Flag(name="--etcd-cafile", help="CA certificate that verifies the etcd servers.", metavar="F"),
    Flag(name="--etcd-certfile", help="Client certificate for connections to etcd.", metavar="F"),
    Flag(name="--etcd-keyfile", help="Private key that belongs to --etcd-certfile.", metavar="F"),
    Flag(
        name="--etcd-compaction-interval",
        help="Interval at which old revisions are removed from the store, embedded or etcd. 0 disables it.",
        default="5m0s",
        metavar="T",
    ),
    Flag(
        name="--encryption-provider-config",
        help="EncryptionConfiguration file: which resources are encrypted in the store, and how.",
        metavar="F",
    ),
    Flag(
        name="--encryption-provider-config-automatic-reload",
        help="Reload the file of --encryption-provider-config when it changes.",
        default=False,
        is_switch=True,
    ),
)


def store_config(options: Mapping[str, Any]) -> StoreConfig:
    """Return the store configuration of the flags: etcd, or a store in memory without --etcd-servers."""
    return StoreConfig(
        etcd_servers=tuple(url.strip() for url in options["etcd_servers"].split(",") if url.strip()),
        etcd_ca=parsers.file("--etcd-cafile", options["etcd_cafile"]),
        etcd_cert=parsers.file("--etcd-certfile", options["etcd_certfile"]),
        etcd_key=parsers.file("--etcd-keyfile", options["etcd_keyfile"]),
        compaction_interval_s=parsers.duration_s("--etcd-compaction-interval", options["etcd_compaction_interval"]),
    )


def encryption(options: Mapping[str, Any]) -> dict[str, Any]:
    path = options["encryption_provider_config"]
    config = parsers.encryption("--encryption-provider-config", path)
    if not options["encryption_provider_config_automatic_reload"]:
        return {"encryption": config}
    if config is None:
        raise CliError("--encryption-provider-config-automatic-reload needs --encryption-provider-config")
    from sampan.storage.encryption import ChangingEncryption

    return {"encryption": ChangingEncryption(config), "encryption_config": Path(path)}
