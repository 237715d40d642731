"""The preferences of a user in a kuberc file, and how they change a command line (`pkg/kuberc`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sampan.cli.kubectl.errors import KubectlError, PlainError

_VERSION = "kubectl.config.k8s.io/v1beta1"
_OFF = "off"


def default_path(flag: str) -> Path | None:
    """Return the file of --kuberc, $KUBERC or the home directory; None if preferences are turned off."""
    variable = os.environ.get("KUBERC", "")
    if os.environ.get("KUBECTL_KUBERC", "").lower() == "false" or variable == _OFF:
        if flag:
            raise KubectlError("disabling kuberc via KUBERC=off and passing kuberc flag are mutually exclusive")
        return None
    return Path(flag or variable or Path.home() / ".kube" / "kuberc")


def read_preferences(path: Path) -> dict[str, Any]:
    """Return the content of a file. Raise KubectlError if it is not a kuberc file."""
    from sampan.cli.kubectl.manifests import documents

    try:
        value: Any = next(documents(path.read_text(errors="replace"), str(path)), {})
    except OSError as error:
        reason = f"open {path}: {(error.strerror or str(error)).lower()}"
        raise PlainError(f"error occurred while applying preferences kuberc error kuberc: {reason}") from None
    if not isinstance(value, dict):
        raise KubectlError(f"error parsing kuberc file: {path} is not an object")
    for section in ("defaults", "aliases"):
        entries = value.get(section) or []
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise KubectlError(f"error parsing kuberc file: {section} must be a list of objects")
    return value


def write_preferences(path: Path, preferences: dict[str, Any]) -> None:
    from sampan.cli.kubectl.printers.objects import as_yaml
    from sampan.machinery.private_files import write_private

    value = {"apiVersion": _VERSION, "kind": "Preference", "defaults": None, "aliases": None, **preferences}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, (as_yaml(value) + "\n").encode())
    except OSError as error:
        raise KubectlError(f"error writing kuberc file: {error.strerror or error}") from None


class Preferences:
    """Aliases and default flags. A flag on the command line wins over both."""

    def __init__(self, content: dict[str, Any]) -> None:
        self._aliases = {str(entry.get("name", "")): entry for entry in content.get("aliases") or ()}
        self._defaults = {str(entry.get("command", "")): entry for entry in content.get("defaults") or ()}

    def expand_alias(self, args: Sequence[str], is_command: Callable[[str], bool]) -> list[str]:
        """Replace the first word of a command line by the command of its alias. Commands cannot be redefined."""
        if not args or args[0].startswith("-") or is_command(args[0]) or args[0] not in self._aliases:
            return list(args)
        alias = self._aliases[args[0]]
        self._defaults = {}  # an alias has flags of its own
        words = [*str(alias.get("command", "")).split(), *_texts(alias, "prependArgs")]
        flags = [text for name, text in _options(alias) if not _has_flag(args[1:], name)]
        return [*words, *flags, *args[1:], *_texts(alias, "appendArgs")]

    def default_flags(self, command: str) -> list[tuple[str, str]]:
        """Return the names and values of default flags of a command, `get` or `set image`."""
        entry = self._defaults.get(command)
        return [(name, text.partition("=")[2]) for name, text in _options(entry)] if entry else []


def load_preferences(args: Sequence[str]) -> Preferences:
    """Return the preferences for a command line; a --kuberc in it must name a file that exists."""
    flag = ""
    for at, word in enumerate(args):
        if word == "--":
            break
        if word == "--kuberc" and at + 1 < len(args):
            flag = args[at + 1]
        elif word.startswith("--kuberc="):
            flag = word.partition("=")[2]
    path = default_path(flag)
    if path is None or not (flag or path.exists()):
        return Preferences({})
    return Preferences(read_preferences(path))


def _options(entry: dict[str, Any]) -> list[tuple[str, str]]:
    pairs = [(str(item.get("name", "")), str(item.get("default", ""))) for item in entry.get("options") or ()]
    return [(name, f"--{name}={value}") for name, value in pairs]


def _texts(entry: dict[str, Any], key: str) -> list[str]:
    return [str(item) for item in entry.get(key) or ()]


def _has_flag(args: Sequence[str], name: str) -> bool:
    return any(word == f"--{name}" or word.startswith(f"--{name}=") for word in args)
