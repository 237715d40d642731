"""`kubectl config set` and `unset`: change a single property, such as `contexts.web.namespace`."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import click

from sampan.api.go_compat import conversion_errors
from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flag_parser import ValueSyntaxError, parse_bool, quote_text
from sampan.kubectl.command_line.flags import arguments, bool_flag
from sampan.kubectl.command_line.shared_flags import WordOptions
from sampan.kubectl.commands.config.files import ConfigFiles, Entry, usage_failure
from sampan.kubectl.errors import KubectlError

_TEXTS = {
    "clusters": ("server", "tls-server-name", "certificate-authority", "proxy-url"),
    "users": ("client-certificate", "client-key", "token", "tokenFile", "as", "as-uid", "username", "password"),
    "contexts": ("cluster", "user", "namespace"),
}
_DATA = {
    "clusters": ("certificate-authority-data",),
    "users": ("client-certificate-data", "client-key-data"),
    "contexts": (),
}
_BOOLEANS = {"clusters": ("insecure-skip-tls-verify", "disable-compression"), "users": (), "contexts": ()}


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPropertyOptions:
    words: tuple[str, ...] = arguments()
    set_raw_bytes: bool = bool_flag(
        "--set-raw-bytes", help="Take the value of a binary property as it is, not as base64."
    )


@KubectlCommand.define("set", SetPropertyOptions)
def set_property(factory: Factory, options: SetPropertyOptions) -> None:
    """Set a property, for example clusters.NAME.server, to a value."""
    if len(options.words) != 2:
        raise usage_failure(f"Unexpected args: [{' '.join(options.words)}]")
    name, value = options.words
    if not value:
        raise KubectlError("you cannot use set to unset a property")
    _change(ConfigFiles(factory.options.kubeconfig), name, value, is_raw=options.set_raw_bytes)
    click.echo(f"Property {quote_text(name)} set.")


@KubectlCommand.define("unset", WordOptions)
def unset_property(factory: Factory, options: WordOptions) -> None:
    """Remove a property, for example contexts.NAME.namespace, or a whole entry."""
    if len(options.words) != 1:
        raise usage_failure(f"Unexpected args: [{' '.join(options.words)}]")
    _change(ConfigFiles(factory.options.kubeconfig), options.words[0], None, is_raw=True)
    click.echo(f"Property {quote_text(options.words[0])} unset.")


def _change(files: ConfigFiles, name: str, value: str | None, *, is_raw: bool) -> None:
    if not name:
        raise KubectlError("you must specify a property")
    section, _, path = name.partition(".")
    if name == "current-context":
        files.write_current_context(value or "")
    elif section == "preferences":
        _change_preferences(files, path, value)
    elif section in _TEXTS:
        _change_entry(files, section, path, value, is_raw=is_raw)
    else:
        raise KubectlError(f"unable to parse {name} after [] at api.Config")


def _change_preferences(files: ConfigFiles, path: str, value: str | None) -> None:
    if path not in ("", "colors"):
        raise KubectlError(f"unable to parse preferences.{path} after [preferences] at api.Preferences")
    if value is None or not path:
        files.write_preferences({})
    else:
        files.write_preferences({"colors": True} if _bool(value) else {})


def _change_entry(files: ConfigFiles, section: str, path: str, value: str | None, *, is_raw: bool) -> None:
    entries = files.load().entries[section]
    if not path:
        if value is not None:
            raise KubectlError(f"can't set a map to a value: map[{' '.join(sorted(entries))}]")
        for key in list(entries):
            files.write_entry(section, key, None)
        return
    key, field = _split(section, path)
    if value is None and not field:
        files.write_entry(section, key, None)
        return
    if not field:
        raise KubectlError(f"can't set a map to a value: map[{' '.join(sorted(entries))}]")
    if value is None and key not in entries:
        raise KubectlError(f"current map key `{key}` is invalid")
    entry: Entry = dict(entries.get(key, {}))
    entry[field] = None if value is None else _value(section, field, value, is_raw)
    files.write_entry(section, key, entry)


def _split(section: str, path: str) -> tuple[str, str]:
    """Split NAME.FIELD at a known field: names may contain dots."""
    fields = (*_TEXTS[section], *_DATA[section], *_BOOLEANS[section])
    for field in fields:
        if path.endswith(f".{field}"):
            return path.removesuffix(f".{field}"), field
    return path, ""


def _value(section: str, field: str, value: str, is_raw: bool) -> Any:
    if field in _BOOLEANS[section]:
        return _bool(value)
    if field not in _DATA[section]:
        return value
    if is_raw:
        return base64.b64encode(value.encode()).decode()
    if (message := conversion_errors.base64_error_message(value)) is not None:
        raise KubectlError(f"error decoding input value: {message}")
    return value


def _bool(value: str) -> bool:
    try:
        return parse_bool(value)
    except ValueSyntaxError as error:
        raise KubectlError(str(error)) from None
