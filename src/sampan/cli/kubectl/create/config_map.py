"""`kubectl create configmap`: a ConfigMap from literals, files, directories and env files."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import click

from sampan.api import names
from sampan.api.go_compat import gotext
from sampan.cli.failures import CliError
from sampan.cli.kubectl.create.generated import metadata
from sampan.cli.kubectl.create.generator import generator_command
from sampan.cli.kubectl.create.key_sources import add_env_files, add_files, add_literals, hashed_name
from sampan.cli.kubectl.flag_parser import STRING_SLICE


def config_map(
    name: str,
    namespace: str = "",
    *,
    from_file: Sequence[str] = (),
    from_literal: Sequence[str] = (),
    from_env_file: Sequence[str] = (),
    append_hash: bool = False,
) -> dict[str, Any]:
    """Return a ConfigMap. Content that is not UTF-8 becomes binary data."""
    if from_env_file and (from_file or from_literal):
        raise CliError("from-env-file cannot be combined with from-file or from-literal")
    data: dict[str, str] = {}
    binary: dict[str, str] = {}

    def add(key: str, content: bytes) -> None:
        if errors := names.config_map_key(key):
            raise CliError(f"{gotext.quote(key)} is not a valid key name for a ConfigMap: {','.join(errors)}")
        for field, entries in (("Data", data), ("BinaryData", binary)):
            if key in entries:
                clash = f"another key by that name already exists in {field} for ConfigMap {gotext.quote(name)}"
                raise CliError(f"cannot add key {gotext.quote(key)}, {clash}")
        try:
            data[key] = content.decode()
        except UnicodeDecodeError:
            binary[key] = base64.b64encode(content).decode()

    add_files(add, from_file)
    add_literals(add, from_literal)
    add_env_files(add, from_env_file, what="config")
    value: dict[str, Any] = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata(name, namespace)}
    value |= {field: entries for field, entries in (("data", data), ("binaryData", binary)) if entries}
    if append_hash:
        value["metadata"]["name"] = hashed_name(value)
    return value


command = generator_command(
    "configmap",
    click.option(
        "--from-file",
        multiple=True,
        type=STRING_SLICE,
        metavar="[KEY=]PATH",
        help="File, or directory of files, whose content becomes a value; repeatable.",
    ),
    click.option("--from-literal", multiple=True, metavar="KEY=VALUE", help="Key and value; repeatable."),
    click.option(
        "--from-env-file",
        multiple=True,
        type=STRING_SLICE,
        metavar="FILE",
        help="File with lines KEY=VALUE; repeatable.",
    ),
    click.option("--append-hash", is_flag=True, help="Append a hash of the content to the name."),
    help="Create a config map from literals, files, directories and env files.",
    failure="failed to create configmap:",
    aliases=("cm",),
)(config_map)
