"""`sampan`: the entry point, which imports only the invoked subcommand."""

from __future__ import annotations

import gc
import os
import sys
import time
from importlib import import_module
from typing import Any

import click

from sampan import __version__
from sampan.cli.command_classes import HelpFormatter, SuggestingGroup
from sampan.machinery.cli_errors import call_with_cli_errors

COMMANDS = {
    "up": ("sampan.cli.up", "Start a cluster."),
    "down": ("sampan.cli.down", "Stop a cluster."),
    "status": ("sampan.cli.status", "List the clusters, and show one in detail."),
    "logs": ("sampan.cli.logs", "Print the log of a detached cluster."),
    "kubeconfig": ("sampan.cli.kubeconfig", "Print the kubeconfig of a cluster."),
    "node": ("sampan.cli.node", "Add, list, remove, stop and start nodes."),
    "token": ("sampan.cli.token", "Manage the tokens with which nodes join."),
    "join": ("sampan.cli.join", "Join this machine to a cluster as a node."),
    "leave": ("sampan.cli.leave", "Remove this machine from its cluster."),
    "snapshot": ("sampan.cli.snapshot", "Save, restore and fork clusters."),
    "store": ("sampan.cli.store", "Copy the store of a stopped cluster."),
    "image": ("sampan.cli.image", "Load, pull, list and remove images."),
    "why": ("sampan.cli.why", "Explain why a pod is pending or where it runs."),
    "trace": ("sampan.cli.trace", "Show the recorded history of an object."),
    "dashboard": ("sampan.cli.dashboard", "Open the dashboard of a cluster in the browser."),
    "top": ("sampan.cli.top", "Show nodes and pods by their use of CPU and memory."),
    "doctor": ("sampan.cli.doctor", "Check this machine and its clusters."),
    "gates": ("sampan.cli.gates", "List the feature gates of Kubernetes."),
    "envtest": ("sampan.cli.envtest", "Run envtest suites of Go projects on Sampan."),
    "service": ("sampan.cli.service", "Run a cluster as a systemd service."),
    "upgrade": ("sampan.cli.upgrade", "Show what an upgrade changes."),
    "docs": ("sampan.cli.docs", "Show the documentation that is installed."),
    "help": ("sampan.cli.help", "Show the help of a command, or a topic."),
    "completion": ("sampan.cli.completion", "Print a completion script for a shell."),
    "kube-apiserver": ("sampan.cli.components.kube_apiserver", "Run only the API server."),
    "kube-controller-manager": (
        "sampan.cli.components.kube_controller_manager",
        "Run only the controllers.",
    ),
    "kubelet": ("sampan.cli.components.kubelet", "Run only the kubelet of this machine."),
    "kube-dns": ("sampan.cli.components.kube_dns", "Run only the DNS server of this machine."),
    "kube-scheduler": ("sampan.cli.components.kube_scheduler", "Run only the scheduler."),
    "kube-proxy": ("sampan.cli.components.kube_proxy", "Run only the service proxy of this machine."),
    "kubectl": ("sampan.cli.kubectl", "Work with a cluster: kubectl in Python."),
}


_COMPONENTS = tuple(name for name in COMMANDS if name.startswith("kube-") or name == "kubelet")
_GROUPS = (
    ("Clusters", ("up", "down", "status", "kubeconfig", "logs", "snapshot", "store", "upgrade")),
    ("Work with a cluster", ("kubectl", "dashboard", "why", "trace", "top", "image", "node")),
    ("Several machines", ("token", "join", "leave")),
    ("This machine", ("doctor", "service", "envtest", "gates", "completion", "docs", "help")),
    ("Single components, with the flags of the real ones", _COMPONENTS),
)


COLLECTED_AFTER = (20_000, 5, 500)
"""The thresholds of Python's garbage collector. Objects that imports create are never garbage, and searching them takes
a tenth of the import time. Collections must also stay short while a large cluster is loaded, whose objects all survive:
a collection of 100,000 objects takes 15 ms."""

click.Context.formatter_class = HelpFormatter


class LazyGroup(SuggestingGroup):
    """A group that imports a subcommand when it is invoked, and reports exceptions in one line."""

    def invoke(self, ctx: click.Context) -> Any:
        return call_with_cli_errors(lambda: click.Group.invoke(self, ctx))

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(COMMANDS[name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in _GROUPS:
            with formatter.section(title):
                formatter.write_dl([(name, COMMANDS[name][1]) for name in names])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "SAMPAN"})
@click.version_option(__version__, prog_name="sampan")
def cli() -> None:
    """Run Kubernetes clusters: a complete Kubernetes in one process."""


def main() -> None:
    gc.set_threshold(*COLLECTED_AFTER)
    try:
        cli(prog_name="sampan", obj=time.monotonic())
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        _flush_output()


def _flush_output() -> None:
    """Flush standard output. If its reader is gone, as with `sampan … | head`, discard the remaining output: Python
    would print an error at exit."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
