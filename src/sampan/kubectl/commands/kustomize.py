"""`kubectl kustomize`: print the objects of a kustomization."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, bool_flag, string_flag
from sampan.kubectl.errors import KubectlError
from sampan.kubectl.kustomization import build
from sampan.kubectl.printers import as_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class KustomizeOptions:
    words: tuple[str, ...] = arguments()
    output: str = string_flag("-o", "--output", metavar="PATH", help="File or directory to write the objects to.")
    load_restrictor: str = string_flag(
        "--load-restrictor",
        default="LoadRestrictionsRootOnly",
        metavar="RULE",
        hidden=True,
        help="Files must always be below the directory of the kustomization.",
    )
    reorder: str = string_flag("--reorder", metavar="RULE", hidden=True, help="Order of the objects: always legacy.")
    enable_alpha_plugins: bool = bool_flag(
        "--enable-alpha-plugins", hidden=True, help="Plugins of kustomizations are refused."
    )
    enable_helm: bool = bool_flag("--enable-helm", hidden=True, help="Helm charts in kustomizations are refused.")
    enable_managedby_label: bool = bool_flag(
        "--enable-managedby-label", hidden=True, help="Has no effect: the label managed-by is not added."
    )
    network: bool = bool_flag("--network", hidden=True, help="Plugins with network access are refused.")


@KubectlCommand.define("kustomize", KustomizeOptions)
def command(factory: Factory, options: KustomizeOptions) -> None:
    """Print the objects of a kustomization."""
    if len(options.words) > 1:
        raise KubectlError("specify one path to kustomization.yaml")
    refused = {
        "enable-alpha-plugins": options.enable_alpha_plugins,
        "enable-helm": options.enable_helm,
        "network": options.network,
    }
    for flag, is_set in refused.items():
        if is_set:
            raise KubectlError(f"--{flag} is not supported")
    values = build(options.words[0] if options.words else ".")
    text = "---\n".join(f"{as_yaml(value)}\n" for value in values)
    if not options.output:
        click.echo(text, nl=False)
        return
    path = Path(options.output)
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
