"""The flags of `sampan up` about nodes, and what they mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from sampan.cli.assembly import KUBELET
from sampan.cli.cluster_dir import ClusterDir
from sampan.cli.failures import CliError
from sampan.cli.nodes_config import AUTO, HOLLOW, OCI, RUNTIMES, NodesConfig


def node_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option("--nodes", type=int, help="How many nodes to run.  [one that runs real pods, where that can be]"),
        click.option(
            "--runtime", type=click.Choice(RUNTIMES), default=AUTO, show_default=True, help="What runs their pods."
        ),
        click.option("--hollow-stages", metavar="F", help="What hollow pods do; see docs/nodes.md."),
        click.option(
            "--hollow-events/--no-hollow-events",
            default=True,
            show_default=True,
            help="Whether hollow nodes tell events.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def nodes_config(given: Mapping[str, Any], components: Sequence[str], where: ClusterDir) -> NodesConfig:
    count, wanted = given["nodes"], given["runtime"]
    if count is not None and count < 0:
        raise CliError("--nodes: cannot be negative")
    if count and KUBELET not in components:
        raise CliError(f"--nodes: there are none without {KUBELET} among --components")
    common = NodesConfig(
        stages=_stages(given["hollow_stages"]),
        has_events=given["hollow_events"],
        root=where.path / "nodes",
        images=where.images,
    )
    if wanted == HOLLOW or count == 0 or KUBELET not in components:
        return replace(common, count=count or 0)
    runtime, why_not = usable(wanted)
    if runtime is not None:
        return replace(common, count=1 if count is None else count, runtime=runtime)
    if count is None and wanted == AUTO:
        return replace(common, note=f"there is no node: {why_not}")
    raise CliError(f"--runtime: {why_not}; {HOLLOW!r} simulates pods")


def usable(wanted: str) -> tuple[str | None, str]:
    """What can run pods here, and if nothing can, why and what to do."""
    from sampan.runtimes.oci.binary import find_binary

    if wanted not in (AUTO, OCI):
        return None, f"pods cannot be run with {wanted!r} yet"
    if os.geteuid() != 0:
        return None, "pods can be run by root only; `sudo sampan up` does, --runtime hollow --nodes 1 simulates"
    if find_binary() is None:
        return None, "there is neither crun nor runc; `apt-get install crun` brings one"
    return OCI, ""


def _stages(path: str | None) -> Path | None:
    """Read here once, to tell what is wrong with it before anything starts."""
    if not path:
        return None
    from sampan.runtimes.hollow.stages import StageError, read_stages

    flag = "--hollow-stages"
    try:
        read_stages(Path(path))
    except OSError as error:
        raise CliError(f"{flag}: cannot read {path}: {error.strerror}") from None
    except StageError as error:
        raise CliError(f"{flag}: {error}") from None
    return Path(path).absolute()


__all__ = ["node_options", "nodes_config", "usable"]
