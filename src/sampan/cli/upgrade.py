"""`sampan upgrade`: what changes between the version that wrote a data directory and this one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import click

from sampan import __version__
from sampan.cli.local_cluster.cluster_dir import running_cluster_options, select_cluster
from sampan.cli.local_cluster.data_version import DATA_FORMAT, data_problem, read_version, store_format
from sampan.cli.status import wrap_beside_title
from sampan.kubectl.printers.objects import as_json
from sampan.machinery.cli_errors import CliError
from sampan.storage.sqlite.schema import STEPS

NOTES: Mapping[str, Sequence[str]] = {
    "0.1.0": ("The first version: data directories of earlier builds are used as they are.",),
}
"""What somebody who upgrades to a version should know, by version."""


@click.command("upgrade")
@running_cluster_options
@click.option(
    "-o", "--output", type=click.Choice(["", "json"]), default="", help="Output format: json is for programs."
)
def command(data_dir: str | None, cluster: str | None, output: str) -> None:
    """Show what changes when this version starts a cluster that another one wrote.

    Nothing is changed: `sampan up` upgrades the data of a cluster when it starts it. The exit code is 1 if this version
    cannot use them.
    """
    directory = select_cluster(data_dir, cluster)
    if not directory.is_cluster:
        raise CliError(f"--name: there is no cluster in {directory.path}; `sampan status` lists the clusters")
    recorded = read_version(directory)
    report = {
        "cluster": directory.name,
        "dataDir": str(directory.path),
        "writtenBy": recorded.version,
        "thisVersion": __version__,
        "dataFormat": recorded.format,
        "newestDataFormat": DATA_FORMAT,
        "storeFormat": store_format(directory.database),
        "newestStoreFormat": len(STEPS),
        "notes": notes_since(recorded.version),
        "problem": data_problem(directory) or _store_problem(store_format(directory.database)),
    }
    if output == "json":
        click.echo(as_json(report))
    else:
        for line in _lines(report):
            click.echo(line)
    if report["problem"]:
        raise SystemExit(1)


def _store_problem(version: int | None) -> str:
    if version is None or version <= len(STEPS):
        return ""
    return f"the store has format {version}; this version supports formats up to {len(STEPS)}"


def notes_since(version: str) -> list[str]:
    """Return the notes of all versions after the one that wrote the data, up to this one."""
    return [
        note
        for other, notes in sorted(NOTES.items(), key=lambda entry: _order(entry[0]))
        if _order(version) < _order(other) <= _order(__version__)
        for note in notes
    ]


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _lines(report: Mapping[str, Any]) -> list[str]:
    lines = [
        *wrap_beside_title("cluster", f"{report['cluster']} in {report['dataDir']}"),
        *wrap_beside_title("written by", report["writtenBy"] or "a version that did not record it"),
        *wrap_beside_title("this version", report["thisVersion"]),
        *wrap_beside_title("data format", _step(report["dataFormat"], report["newestDataFormat"])),
    ]
    if report["storeFormat"] is not None:
        lines += wrap_beside_title("store format", _step(report["storeFormat"], report["newestStoreFormat"]))
    for note in report["notes"]:
        lines += wrap_beside_title("note", note)
    if report["problem"]:
        return lines + wrap_beside_title("ERROR", report["problem"])
    flag = f" --name {report['cluster']}"
    return lines + wrap_beside_title("next", f"sampan snapshot save{flag}, then sampan up{flag}")


def _step(old: int, new: int) -> str:
    return f"{old}, converted to {new} at the next start" if old < new else str(old)
