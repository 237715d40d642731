"""The kubeconfig files that `kubectl config` reads and writes (`client-go/tools/clientcmd.PathOptions`).

Entries of several files are merged; the first file with an entry of a name counts. A change is written to the file that
the entry comes from, and a new entry to the first file that exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from sampan.kubectl.errors import KubectlError
from sampan.machinery.client import kubeconfig
from sampan.machinery.pki.private_files import write_private

Entry = dict[str, Any]

SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}
_REQUIRED = {"clusters": {"server": ""}, "contexts": {"cluster": "", "user": ""}, "users": {}}
"""The fields of each section that are written to a kubeconfig file even if they are empty."""
_ORDER = {
    "clusters": (
        "server",
        "tls-server-name",
        "insecure-skip-tls-verify",
        "certificate-authority",
        "certificate-authority-data",
        "proxy-url",
        "disable-compression",
        "extensions",
    ),
    "users": (
        "client-certificate",
        "client-certificate-data",
        "client-key",
        "client-key-data",
        "token",
        "tokenFile",
        "as",
        "as-uid",
        "as-groups",
        "as-user-extra",
        "username",
        "password",
        "auth-provider",
        "exec",
        "extensions",
    ),
    "contexts": ("cluster", "user", "namespace", "extensions"),
}
"""The order in which the fields of an entry are written: that of their declaration in Go."""
_EXEC_ORDER = ("command", "args", "env", "apiVersion", "installHint", "provideClusterInfo", "interactiveMode")


@dataclass(slots=True)
class MergedConfig:
    """The entries of all files by section and name, each with the file that it comes from."""

    entries: dict[str, dict[str, Entry]] = field(default_factory=lambda: {section: {} for section in SECTIONS})
    origins: dict[tuple[str, str], Path] = field(default_factory=dict)
    current_context: str = ""
    current_context_origin: Path | None = None
    preferences: Entry = field(default_factory=dict)

    def as_value(self) -> dict[str, Any]:
        """Return the config as a document, with fields in the order of their declaration."""
        value: dict[str, Any] = {"kind": "Config", "apiVersion": "v1"}
        if self.preferences:
            value["preferences"] = self.preferences
        for section, inner in SECTIONS.items():
            entries = self.entries[section]
            value[section] = [
                {"name": name, inner: complete_entry(section, entries[name])} for name in sorted(entries)
            ] or None
        return value | {"current-context": self.current_context}


def complete_entry(section: str, entry: Mapping[str, Any]) -> Entry:
    """Return an entry with its required fields and without empty ones."""
    values = _REQUIRED[section] | {key: part for key, part in entry.items() if part not in (None, "", [], False)}
    if isinstance(values.get("exec"), dict):
        plugin = {"command": "", "args": None, "env": None, "provideClusterInfo": False, **values["exec"]}
        values["exec"] = {key: plugin[key] for key in _EXEC_ORDER if key in plugin} | plugin
    if isinstance(values.get("auth-provider"), dict):
        values["auth-provider"] = {"name": "", **values["auth-provider"]}
        values["auth-provider"] = {"name": values["auth-provider"].pop("name"), **values["auth-provider"]}
    ordered = {key: values[key] for key in _ORDER[section] if key in values}
    return ordered | values


class ConfigFiles:
    def __init__(self, explicit_path: str) -> None:
        """`explicit_path` is the value of --kubeconfig, which may be empty."""
        self.explicit_path = Path(explicit_path) if explicit_path else None
        self._paths = [self.explicit_path] if self.explicit_path else kubeconfig.default_paths()

    @property
    def default_path(self) -> Path:
        """The file for new entries: the first one that exists, or else the last one."""
        return next((path for path in self._paths if path.exists()), self._paths[-1])

    def load(self) -> MergedConfig:
        config = MergedConfig()
        for path in self._paths:
            document = _read(path)
            if document.get("current-context") and not config.current_context:
                config.current_context, config.current_context_origin = str(document["current-context"]), path
            config.preferences = {**(document.get("preferences") or {}), **config.preferences}
            for section, inner in SECTIONS.items():
                for item in _items(document, section, path):
                    name = str(item.get("name", ""))
                    if name not in config.entries[section]:
                        config.entries[section][name] = dict(item.get(inner) or {})
                        config.origins[section, name] = path
        return config

    def write_entry(self, section: str, name: str, entry: Entry | None) -> None:
        """Write an entry to the file that it comes from; None removes it."""
        path = self.load().origins.get((section, name), self.default_path)
        document = _read(path)
        inner = SECTIONS[section]
        items = {str(item.get("name", "")): item.get(inner) or {} for item in _items(document, section, path)}
        if entry is None:
            items.pop(name, None)
        else:
            items[name] = entry
        document[section] = [{"name": key, inner: items[key]} for key in items]
        _write(path, document)

    def write_current_context(self, name: str) -> None:
        path = self.load().current_context_origin or self.default_path
        _write(path, {**_read(path), "current-context": name})

    def write_preferences(self, preferences: Entry) -> None:
        path = self.default_path
        _write(path, {**_read(path), "preferences": preferences})


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    from sampan.kubectl.documents import documents

    try:
        text = path.read_text(errors="replace")
        value: Any = next(documents(text, str(path)), {})
    except OSError as error:
        raise KubectlError(f'error loading config file "{path}": {(error.strerror or str(error)).lower()}') from None
    except KubectlError as error:
        reason = error.message.partition("error converting YAML to JSON: ")[2]
        raise KubectlError(f'error loading config file "{path}": {reason}') from None
    if not isinstance(value, dict):
        raise KubectlError(f'error loading config file "{path}": not a kubeconfig')
    return value


def _items(document: Mapping[str, Any], section: str, path: Path) -> list[dict[str, Any]]:
    items = document.get(section) or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise KubectlError(f'error loading config file "{path}": {section} must be a list of objects')
    return items


def _write(path: Path, document: Mapping[str, Any]) -> None:
    """Write a file with sorted entries, readable only by its owner."""
    from sampan.kubectl.printers.objects import as_yaml

    config = MergedConfig(
        current_context=str(document.get("current-context") or ""),
        preferences=dict(document.get("preferences") or {}),
    )
    for section, inner in SECTIONS.items():
        for item in _items(document, section, path):
            config.entries[section][str(item.get("name", ""))] = dict(item.get(inner) or {})
    value = config.as_value()
    if document.get("extensions"):
        value["extensions"] = document["extensions"]
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
        write_private(path, (as_yaml(value) + "\n").encode())
    except OSError as error:
        raise KubectlError(f"open {path}: {(error.strerror or str(error)).lower()}") from None


def usage_failure(message: str) -> KubectlError:
    """Print the help of the command, and return the error for wrong arguments."""
    click.echo(click.get_current_context().get_help())
    return KubectlError(message)
