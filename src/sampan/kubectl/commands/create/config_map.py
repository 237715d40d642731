"""`kubectl create configmap`: a ConfigMap from literals, files, directories and env files."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from sampan.api import names
from sampan.api.go_compat import gotext
from sampan.kubectl.commands.create.generator import (
    CreationOptions,
    NameOptions,
    creation_flags,
    generator_command,
    metadata,
    pure,
)
from sampan.kubectl.commands.create.key_sources import (
    SourceOptions,
    add_env_files,
    add_files,
    add_literals,
    append_hash_flag,
    source_flags,
    with_hashed_name,
)
from sampan.machinery.cli_errors import CliError


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateConfigMapOptions(NameOptions):
    sources: SourceOptions = source_flags()
    append_hash: bool = append_hash_flag()
    creation: CreationOptions = creation_flags()


def config_map(name: str, namespace: str, options: CreateConfigMapOptions) -> dict[str, Any]:
    """Return a ConfigMap. Content that is not UTF-8 becomes binary data."""
    options.sources.check()
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

    add_files(add, options.sources.from_file)
    add_literals(add, options.sources.from_literal)
    add_env_files(add, options.sources.from_env_file, kind="config")
    value: dict[str, Any] = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata(name, namespace)}
    value |= {
        field: dict(sorted(entries.items())) for field, entries in (("data", data), ("binaryData", binary)) if entries
    }
    return with_hashed_name(value) if options.append_hash else value


command = generator_command(
    "configmap",
    CreateConfigMapOptions,
    pure(config_map),
    help="Create a config map from literals, files, directories and env files.",
    failure="failed to create configmap:",
    aliases=("cm",),
)
