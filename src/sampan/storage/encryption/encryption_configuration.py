"""EncryptionConfiguration: which resources are encrypted, and how.

Error messages name the field and never contain a key.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sampan.machinery.config_file import ConfigFileError, decode_config, read_config_bytes
from sampan.storage.encryption.backend import IDENTITY, EncryptionKey, ValueTransformer, key
from sampan.storage.encryption.ciphers import CIPHERS

_VERSION, _KIND = "apiserver.config.k8s.io/v1", "EncryptionConfiguration"
_NO_API = frozenset({"apiserveripinfo", "serviceipallocations", "servicenodeportallocations"})
_LINE = re.compile(r"\bline [0-9]+")


class EncryptionConfigError(ConfigFileError):
    """The configuration is invalid."""


@dataclass(frozen=True, slots=True)
class _EncryptionRule:
    resources: tuple[tuple[str, str], ...]
    """Pairs of resource and group; * stands for any."""
    values: ValueTransformer

    def fits(self, group: str, plural: str) -> bool:
        return any(p in (plural, "*") and g in (group, "*") for p, g in self.resources)


class EncryptionRules:
    def __init__(self, rules: Sequence[_EncryptionRule]) -> None:
        self._rules = tuple(rules)

    def find_transformer(self, group: str, plural: str) -> ValueTransformer | None:
        """Return the transformer of a resource's values from the first matching rule; None for no transformation."""
        return next((rule.values for rule in self._rules if rule.fits(group, plural)), None)


class ChangingEncryption(EncryptionRules):
    """An encryption configuration that can be replaced at run time; existing transformers are updated."""

    def __init__(self, first: EncryptionRules) -> None:
        super().__init__(first._rules)
        self._values: dict[tuple[str, str], ValueTransformer] = {}

    def find_transformer(self, group: str, plural: str) -> ValueTransformer:
        values = self._values.get((group, plural))
        if values is None:
            values = self._values[group, plural] = ValueTransformer(self._keys(group, plural))
        return values

    def replace(self, other: EncryptionRules) -> None:
        self._rules = other._rules
        for (group, plural), values in self._values.items():
            values.replace(self._keys(group, plural))

    def _keys(self, group: str, plural: str) -> Sequence[EncryptionKey]:
        values = super().find_transformer(group, plural)
        return values.keys if values is not None else (IDENTITY,)


def read_encryption_config(path: Path) -> EncryptionRules:
    """Read the file; raise ConfigFileError if it is invalid or cannot be read."""
    content = read_config_bytes(path)
    try:
        value = decode_config(content)
    except ConfigFileError as error:
        line = _LINE.search(str(error))  # the rest of the message could contain keys
        raise EncryptionConfigError(f"{f'{line[0]}: ' if line else ''}the file is not valid YAML") from None
    return parse(value)


def parse(value: Any) -> EncryptionRules:
    if not isinstance(value, Mapping) or (value.get("apiVersion"), value.get("kind")) != (_VERSION, _KIND):
        raise EncryptionConfigError(f"want kind {_KIND} of apiVersion {_VERSION}")
    _check_fields(value, ("apiVersion", "kind", "resources"), "")
    return EncryptionRules(
        [_rule(rule, f"resources[{index}]") for index, rule in enumerate(_list(value, "resources", ""))]
    )


def _rule(value: Any, path: str) -> _EncryptionRule:
    _check_fields(value, ("resources", "providers"), path)
    names = _list(value, "resources", path)
    resources = tuple(_resource(name, f"{path}.resources[{index}]") for index, name in enumerate(names))
    _check_overlap(resources, f"{path}.resources")
    providers = _list(value, "providers", path)
    keys = [
        key for index, provider in enumerate(providers) for key in _provider(provider, f"{path}.providers[{index}]")
    ]
    return _EncryptionRule(resources, ValueTransformer(keys))


def _resource(name: Any, path: str) -> tuple[str, str]:
    if not isinstance(name, str) or not name or name != name.lower():
        raise EncryptionConfigError(f"{path}: resource name must not be empty and must not contain capital letters")
    if name == "*":
        raise EncryptionConfigError(
            f"{path}: want '*.' for all resources of the core group, or '*.*' for all resources"
        )
    plural, _, group = name.partition(".")
    if plural in _NO_API and not group:
        raise EncryptionConfigError(f"{path}: {name} is not a resource of the API")
    if group == "events.k8s.io":
        raise EncryptionConfigError(f"{path}: events are stored in the core group: want 'events'")
    if group == "extensions":
        raise EncryptionConfigError(f"{path}: the API group extensions has been removed")
    if group == "*" and plural != "*":
        raise EncryptionConfigError(f"{path}: a wildcard group needs the wildcard resource, as in '*.*'")
    return plural, group


def _check_overlap(resources: Sequence[tuple[str, str]], path: str) -> None:
    if len(set(resources)) < len(resources):
        raise EncryptionConfigError(f"{path}: the same resource cannot be specified multiple times")
    whole = {group for plural, group in resources if plural == "*"}
    if len(resources) > 1 and ("*" in whole or any(p != "*" and g in whole for p, g in resources)):
        raise EncryptionConfigError(f"{path}: a wildcard overlaps with another entry")


def _provider(value: Any, path: str) -> list[EncryptionKey]:
    _check_fields(value, ("identity", "kms", *CIPHERS), path)
    if len(value) != 1:
        raise EncryptionConfigError(f"{path}: want exactly one of identity, {', '.join(CIPHERS)}")
    (name, settings), *_ = value.items()
    if name == "identity":
        return [IDENTITY]
    if name == "kms":
        raise EncryptionConfigError(f"{path}.kms: not supported; want identity, {', '.join(CIPHERS)}")
    path = f"{path}.{name}"
    _check_fields(settings, ("keys",), path)
    return [_key(name, entry, f"{path}.keys[{index}]") for index, entry in enumerate(_list(settings, "keys", path))]


def _key(provider: str, value: Any, path: str) -> EncryptionKey:
    _check_fields(value, ("name", "secret"), path)
    name, text = value.get("name"), value.get("secret")
    if not isinstance(name, str) or not name:
        raise EncryptionConfigError(f"{path}.name: is required")
    if not isinstance(text, str) or not text:
        raise EncryptionConfigError(f"{path}.secret: is required")
    make, sizes = CIPHERS[provider]
    try:
        secret = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise EncryptionConfigError(f"{path}.secret: secrets must be base64 encoded") from None
    if len(secret) not in sizes:
        expected = " or ".join(map(str, sizes))
        raise EncryptionConfigError(f"{path}.secret: has {len(secret)} bytes, want {expected}")
    return key(provider, name, make(secret))


def _check_fields(value: Any, names: Sequence[str], path: str) -> None:
    if not isinstance(value, Mapping):
        raise EncryptionConfigError(f"{path}: want an object")
    for name in value:
        if name not in names:
            raise EncryptionConfigError(f"{path}: unknown field {name!r}".removeprefix(": "))


def _list(value: Mapping[str, Any], name: str, path: str) -> list[Any]:
    items = value.get(name)
    if not isinstance(items, list) or not items:
        raise EncryptionConfigError(f"{path}.{name}: at least one is required".removeprefix("."))
    return items
