"""The usage and the examples of every command, with one module per group of commands in the help of kubectl.

Each example is a comment and one or more command lines without the name of the program. A line that begins with `|` is
printed as it is. A module is imported when the help of one of its commands is printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

_MODULES = {
    "create": "create",
    **dict.fromkeys(("", "expose", "run", "set", "explain", "get", "edit", "delete"), "basic"),
    **dict.fromkeys(("rollout", "rolling-update", "scale", "autoscale"), "deploy"),
    **dict.fromkeys(
        ("certificate", "cluster-info", "top", "cordon", "uncordon", "drain", "taint"), "cluster_management"
    ),
    **dict.fromkeys(("describe", "logs", "attach", "exec", "port-forward"), "diagnosis"),
    **dict.fromkeys(("proxy", "cp", "auth", "debug", "events"), "diagnosis"),
    **dict.fromkeys(("diff", "apply", "patch", "replace", "wait", "kustomize"), "advanced"),
}
"""The module of each command; `settings` has the others."""


def usage_and_examples(path: str) -> tuple[str, str]:
    """Return the usage and the examples of a command, which is named as in `rollout status`."""
    module = _MODULES.get(path.partition(" ")[0], "settings")
    texts: Mapping[str, tuple[str, str]] = import_module(f"{__name__}.{module}").HELP
    return texts.get(path, ("[flags] [options]", ""))
