"""`sampan kubectl`: the commands of kubectl with the same flags and output, for machines without it.

There is one module per command (`staging/src/k8s.io/kubectl/pkg/cmd`), with the attribute `command`. Commands are
short-lived, so they use the HTTP client of the standard library and untyped values: importing aiohttp and the API types
would take longer than most commands. What commands share is in `command` (flags), `options` (shared flags), `factory`
(connection and resource types), `targets` (which objects), `printers` (output) and `errors`.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import click

from sampan.cli.kubectl.command import KubectlGroup
from sampan.cli.kubectl.errors import KubectlError

GROUPS = {
    "Basic Commands (Beginner)": {
        "create": "Create objects from files, or by their properties.",
        "expose": "Expose pods, a deployment or a service as a new service.",
        "run": "Run an image in a pod.",
        "set": "Set properties of objects, such as images and environment variables.",
    },
    "Basic Commands (Intermediate)": {
        "explain": "Show the documentation of a resource type.",
        "get": "List objects or show one.",
        "edit": "Edit objects in an editor.",
        "delete": "Delete objects by name, label or file.",
    },
    "Deploy Commands": {
        "rollout": "Manage the rollout of a deployment, daemon set or stateful set.",
        "rolling-update": "Replace a replication controller step by step.",
        "scale": "Set the number of replicas.",
        "autoscale": "Create a horizontal pod autoscaler.",
    },
    "Cluster Management Commands": {
        "certificate": "Approve or deny certificate signing requests.",
        "cluster-info": "Show the addresses of the control plane and its services.",
        "top": "Show resource usage of nodes or pods.",
        "cordon": "Mark nodes as unschedulable.",
        "uncordon": "Mark nodes as schedulable.",
        "drain": "Evict the pods of nodes before maintenance.",
        "taint": "Update the taints of nodes.",
    },
    "Troubleshooting and Debugging Commands": {
        "describe": "Show the details of objects and their events.",
        "logs": "Print the logs of a container.",
        "attach": "Attach to the main process of a container.",
        "exec": "Run a command in a container.",
        "port-forward": "Forward local ports to a pod.",
        "proxy": "Run a proxy to the API server.",
        "cp": "Copy files to and from a container.",
        "auth": "Inspect authorization.",
        "debug": "Debug pods and nodes with additional containers.",
        "events": "List events.",
    },
    "Advanced Commands": {
        "diff": "Show what apply would change.",
        "apply": "Apply the configuration in files to objects.",
        "patch": "Change fields of objects.",
        "replace": "Replace objects by those in files.",
        "wait": "Wait for a condition of objects.",
        "kustomize": "Print the objects of a kustomization.",
    },
    "Settings Commands": {
        "label": "Update the labels of objects.",
        "annotate": "Update the annotations of objects.",
        "completion": "Print the completion script for a shell.",
    },
    "Other Commands": {
        "api-resources": "Print the resource types of the server.",
        "api-versions": "Print the API versions of the server.",
        "config": "Change kubeconfig files.",
        "kuberc": "Manage preferences in kuberc files.",
        "options": "List the global flags.",
        "plugin": "List plug-ins.",
        "version": "Print the versions of client and server.",
    },
}
"""The commands with their help texts, grouped as in the help of kubectl."""

_DIRECTORY = os.path.dirname(__file__)


def _has_module(name: str) -> bool:
    path = os.path.join(_DIRECTORY, name.replace("-", "_"))
    return os.path.exists(f"{path}.py") or os.path.isdir(path)


COMMANDS = {name: text for commands in GROUPS.values() for name, text in commands.items() if _has_module(name)}


class RootGroup(KubectlGroup):
    """The group of all commands, which are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        subcommand: click.Command = import_module(f"{__name__}.{name.replace('-', '_')}").command
        return subcommand

    def report_missing_command(self, ctx: click.Context) -> None:
        if ctx.args:
            raise KubectlError(f'unknown command "{ctx.args[0]}" for "kubectl"' + suggestions(ctx.args[0]))
        super().report_missing_command(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in GROUPS.items():
            if present := [(name, text) for name, text in commands.items() if name in COMMANDS]:
                with formatter.section(title):
                    formatter.write_dl(present)


def suggestions(word: str) -> str:
    """Return a list of commands with similar names, or nothing."""
    import difflib

    names = difflib.get_close_matches(word, COMMANDS, n=3, cutoff=0.7)
    return "\n\nDid you mean this?\n" + "\n".join(f"\t{name}" for name in names) if names else ""


@click.group("kubectl", cls=RootGroup, context_settings={"help_option_names": ["-h", "--help"]})
def command(**options: Any) -> None:
    """Control a cluster with the commands of kubectl."""


__all__ = ["COMMANDS", "GROUPS", "command"]
