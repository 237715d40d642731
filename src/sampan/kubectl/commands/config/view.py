"""`kubectl config view`: print the merged kubeconfig."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from pathlib import Path

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, bool_flag, changed_flags
from sampan.kubectl.commands.config.files import ConfigFiles, MergedConfig
from sampan.kubectl.errors import KubectlError, UsageError
from sampan.kubectl.printers import OutputOptions, output_flags

_OMITTED = "DATA+OMITTED"
_REDACTED = "REDACTED"
_FILES = {"clusters": ("certificate-authority",), "users": ("client-certificate", "client-key"), "contexts": ()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewOptions:
    words: tuple[str, ...] = arguments()
    output: OutputOptions = output_flags()
    minify: bool = bool_flag("--minify", help="Print only what the current context uses.")
    flatten: bool = bool_flag("--flatten", help="Replace paths of files by their content, for a portable kubeconfig.")
    raw: bool = bool_flag("--raw", help="Print certificates, keys and other secrets.")
    merge: bool = bool_flag("--merge", default=True, help="Merge all kubeconfig files. True by default.")
    changed_flags: frozenset[str] = changed_flags()


@KubectlCommand.define("view", ViewOptions)
def view(factory: Factory, options: ViewOptions) -> None:
    """Print the merged kubeconfig, or that of --kubeconfig."""
    if options.words:
        raise UsageError(f"unexpected arguments: [{' '.join(options.words)}]")
    output = options.output
    if not (output or "output" in options.changed_flags):
        output = replace(output, format="yaml")
    printer = output.printer(is_sorted=False)
    files = ConfigFiles(factory.options.kubeconfig)
    if not options.merge and files.explicit_path is None:
        raise KubectlError("if merge==false a precise file must be specified")
    config = files.load()
    if options.minify:
        _minify(config, factory.options.context_name or config.current_context)
    if options.flatten:
        _flatten(config)
    elif not options.raw:
        _redact(config)
    printer.print(config.as_value())


def _minify(config: MergedConfig, name: str) -> None:
    if not name:
        raise KubectlError("current-context must exist in order to minify")
    contexts = config.entries["contexts"]
    if name not in contexts:
        raise KubectlError(f"cannot locate context {name}")
    config.current_context = name
    context = contexts[name]
    for section, key in (("clusters", "cluster"), ("users", "user")):
        entries, entry_name = config.entries[section], str(context.get(key) or "")
        if entry_name and entry_name not in entries:
            raise KubectlError(f"cannot locate {key} {entry_name}")
        config.entries[section] = {entry_name: entries[entry_name]} if entry_name else {}
    config.entries["contexts"] = {name: context}


def _flatten(config: MergedConfig) -> None:
    for section, keys in _FILES.items():
        for name, entry in config.entries[section].items():
            for key in keys:
                path = entry.pop(key, None)
                if path and not entry.get(f"{key}-data"):
                    file = config.origins[section, name].parent / str(path)
                    entry[f"{key}-data"] = base64.b64encode(_content(file)).decode()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise KubectlError(f"open {path}: {(error.strerror or str(error)).lower()}") from None


def _redact(config: MergedConfig) -> None:
    for section, keys in _FILES.items():
        for entry in config.entries[section].values():
            for key in keys:
                if entry.get(f"{key}-data"):
                    entry[f"{key}-data"] = _OMITTED
            for key in ("token", "password"):
                if entry.get(key):
                    entry[key] = _REDACTED
