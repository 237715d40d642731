"""`kubectl config view`: print the merged kubeconfig."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import click

from sampan.kubectl.command_line.command import CHANGED_FLAGS, KubectlCommand
from sampan.kubectl.command_line.shared_options import output_options, printer_of
from sampan.kubectl.commands.config.files import ConfigFiles, MergedConfig
from sampan.kubectl.errors import KubectlError, UsageError

_OMITTED = "DATA+OMITTED"
_REDACTED = "REDACTED"
_FILES = {"clusters": ("certificate-authority",), "users": ("client-certificate", "client-key"), "contexts": ()}


@click.command("view", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@output_options()
@click.option("--minify", is_flag=True, help="Print only what the current context uses.")
@click.option("--flatten", is_flag=True, help="Replace paths of files by their content, for a portable kubeconfig.")
@click.option("--raw", is_flag=True, help="Print certificates, keys and other secrets.")
@click.option("--merge", is_flag=True, default=True, help="Merge all kubeconfig files. True by default.")
@click.pass_context
def view(ctx: click.Context, /, words: tuple[str, ...], **options: Any) -> None:
    """Print the merged kubeconfig, or that of --kubeconfig."""
    if words:
        raise UsageError(f"unexpected arguments: [{' '.join(words)}]")
    flags = ctx.obj.flags
    output = options["output"] or ("" if options["template"] else "yaml")
    if "output" in ctx.meta[CHANGED_FLAGS]:
        output = options["output"]
    printer = printer_of(options | {"output": output}, is_sorted=False)
    files = ConfigFiles(flags)
    if not options["merge"] and files.explicit_path is None:
        raise KubectlError("if merge==false a precise file must be specified")
    config = files.load()
    if options["minify"]:
        _minify(config, str(flags.get("context_name") or config.current_context))
    if options["flatten"]:
        _flatten(config)
    elif not options["raw"]:
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
