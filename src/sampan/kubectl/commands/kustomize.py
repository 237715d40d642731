"""`kubectl kustomize`: print the objects of a kustomization."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sampan.kubectl.command_line.command import KubectlCommand
from sampan.kubectl.errors import KubectlError
from sampan.kubectl.kustomization import build
from sampan.kubectl.printers import as_yaml

_REFUSED = ("enable_alpha_plugins", "enable_helm", "enable_exec", "enable_star", "network")


@click.command("kustomize", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@click.option("-o", "--output", default="", metavar="PATH", help="File or directory to write the objects to.")
@click.option(
    "--load-restrictor",
    default="LoadRestrictionsRootOnly",
    metavar="RULE",
    hidden=True,
    help="Files must always be below the directory of the kustomization.",
)
@click.option("--reorder", default="", metavar="RULE", hidden=True, help="Order of the objects: always legacy.")
@click.option("--enable-alpha-plugins", is_flag=True, hidden=True, help="Plug-ins of kustomizations are refused.")
@click.option("--enable-helm", is_flag=True, hidden=True, help="Helm charts in kustomizations are refused.")
@click.option(
    "--enable-managedby-label", is_flag=True, hidden=True, help="Has no effect: the label managed-by is not added."
)
@click.option("--network", is_flag=True, hidden=True, help="Plug-ins with network access are refused.")
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...], **options: Any) -> None:
    """Print the objects of a kustomization."""
    if len(words) > 1:
        raise KubectlError("specify one path to kustomization.yaml")
    for name in _REFUSED:
        if options.get(name):
            raise KubectlError(f"--{name.replace('_', '-')} is not supported")
    values = build(words[0] if words else ".")
    text = "---\n".join(f"{as_yaml(value)}\n" for value in values)
    if not options["output"]:
        click.echo(text, nl=False)
        return
    path = Path(options["output"])
    try:
        if not path.is_dir():
            path.write_text(text)
            return
        for value in values:
            group = str(value.get("apiVersion", "")).replace("/", "_").lower()
            name = f"{group}_{str(value['kind']).lower()}_{value['metadata'].get('name', '')}.yaml"
            (path / name).write_text(f"{as_yaml(value)}\n")
    except OSError as error:
        raise KubectlError(f"open {path}: {(error.strerror or str(error)).lower()}") from None


__all__ = ["build", "command"]
