"""The flags of `sampan up` about nodes, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from sampan.cli.assembly import KUBELET
from sampan.cli.failures import CliError
from sampan.cli.nodes_config import AUTO, HOLLOW, RUNTIMES, NodesConfig


def node_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option("--nodes", type=int, default=0, show_default=True, help="How many nodes to run."),
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


def nodes_config(given: Mapping[str, Any], components: Sequence[str]) -> NodesConfig:
    count, runtime = given["nodes"], given["runtime"]
    if count < 0:
        raise CliError("--nodes: cannot be negative")
    if count and KUBELET not in components:
        raise CliError(f"--nodes: there are none without {KUBELET} among --components")
    if runtime not in (AUTO, HOLLOW) or (count and runtime != HOLLOW):
        raise CliError(f"--runtime: pods cannot be run with {runtime!r} yet; {HOLLOW!r} simulates them")
    return NodesConfig(count=count, stages=_stages(given["hollow_stages"]), has_events=given["hollow_events"])


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


__all__ = ["node_options", "nodes_config"]
