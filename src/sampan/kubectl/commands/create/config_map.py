"""`kubectl create configmap`: a ConfigMap from literals, files, directories and env files."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from sampan.api import names
from sampan.api.go_compat import gotext
from sampan.kubectl.commands.create.generator import generator_command, metadata
from sampan.kubectl.commands.create.key_sources import (
    add_env_files,
    add_files,
    add_literals,
    append_hash_option,
    check_sources,
    source_options,
    with_hashed_name,
)
from sampan.machinery.cli_errors import CliError


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
    check_sources(from_file, from_literal, from_env_file)
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
    value |= {
        field: dict(sorted(entries.items())) for field, entries in (("data", data), ("binaryData", binary)) if entries
    }
    return with_hashed_name(value) if append_hash else value


command = generator_command(
    "configmap",
    source_options(),
    append_hash_option(),
    help="Create a config map from literals, files, directories and env files.",
    failure="failed to create configmap:",
    aliases=("cm",),
)(config_map)
