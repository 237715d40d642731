"""`sampan gates`: the feature gates of a version of Kubernetes, and which of them Sampan can switch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from sampan.api.feature_gates import IMPLEMENTED_GATES, LEVELS, FeatureGates, GateSpec, gate_history
from sampan.api.kubernetes_version import MAJOR, MINOR_VERSION
from sampan.kubectl.printers.columns import align_columns

_HEAD = ("NAME", "STAGE", "DEFAULT", "LOCKED", "SWITCHABLE")
_WIDE_HEAD = (*_HEAD, "HISTORY")


@click.command("gates")
@click.option(
    "--kubernetes-version",
    type=click.Choice([f"{MAJOR}.{level}" for level in LEVELS]),
    default=MINOR_VERSION,
    show_default=True,
    help="Version of Kubernetes whose feature gates are listed.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json"]),
    default="table",
    show_default=True,
    help="Output format: wide and json also show the stages and defaults of all versions.",
)
def command(kubernetes_version: str, output: str) -> None:
    """List the feature gates of a version of Kubernetes.

    SWITCHABLE says whether Sampan implements the gate both on and off. --feature-gates accepts only the default of all
    other gates.
    """
    gates = FeatureGates(level=int(kubernetes_version.rpartition(".")[2]))
    if output == "json":
        click.echo(json.dumps([_as_object(name, spec) for name, spec in gates.specs()], indent=2))
        return
    head = _WIDE_HEAD if output == "wide" else _HEAD
    rows = [_row(name, spec)[: len(head)] for name, spec in gates.specs()]
    for line in align_columns(["\t".join(row) for row in (head, *rows)]):
        click.echo(line)


def describe_spec(spec: GateSpec) -> str:
    """Return stage, default and lock, such as `Beta on`."""
    if spec.stage == "Removed":
        return spec.stage
    state = f"{spec.stage} {'on' if spec.default else 'off'}{' locked' if spec.locked else ''}"
    if spec.min_compatibility:
        state += f" (minimal compatibility version {MAJOR}.{spec.min_compatibility})"
    return state


def _row(name: str, spec: GateSpec) -> Sequence[str]:
    history = ", ".join(f"{_version(past)} {describe_spec(past)}" for past in gate_history()[name])
    is_switchable = name in IMPLEMENTED_GATES
    return name, spec.stage, "on" if spec.default else "off", *map(_text, (spec.locked, is_switchable)), history


def _as_object(name: str, spec: GateSpec) -> dict[str, Any]:
    return {
        "name": name,
        "stage": spec.stage,
        "default": spec.default,
        "locked": spec.locked,
        "switchable": name in IMPLEMENTED_GATES,
        "history": [{"version": _version(past), "state": describe_spec(past)} for past in gate_history()[name]],
    }


def _version(spec: GateSpec) -> str:
    return f"{MAJOR}.{spec.since}"


def _text(value: bool) -> str:
    return "yes" if value else "no"
