"""Flags as the fields of a frozen dataclass.

The options of a command are a dataclass whose fields are declared with the functions of this module, in the order in
which the help shows the flags. Their names and types are those of pflag. Flags that several commands share are
dataclasses too, which are composed with `flag_group` or inherited. `OptionSet` makes the flags of a dataclass and fills
it from a command line; it raises TypeError for a field that is not declared here, when the command is imported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields
from functools import partial
from typing import Any, Generic, TypeVar

import click

from sampan.kubectl.command_line.flag_parser import DURATION, STRING_SLICE, DeprecatedOption, ParsedFlags

T = TypeVar("T")

_KEY = "flag"
"""Key in the metadata of a field: its declaration."""
_Reader = Callable[[ParsedFlags], Any]


class _Flag:
    """The declaration of a flag. Neither this class nor `_Group` is a dataclass, as every command would have to wait
    until those are made."""

    __slots__ = ("attributes", "default", "names")

    def __init__(self, names: tuple[str, ...], attributes: Mapping[str, Any], default: Any) -> None:
        self.names, self.attributes, self.default = names, attributes, default


class _Group:
    __slots__ = ("defaults", "omitted", "options_type", "texts")

    def __init__(
        self,
        options_type: type[Any],
        omitted: Sequence[str] = (),
        defaults: Mapping[str, Any] | None = None,
        texts: Mapping[str, str] | None = None,
    ) -> None:
        self.options_type, self.omitted = options_type, omitted
        self.defaults, self.texts = defaults or {}, texts or {}


def string_flag(*names: str, default: str = "", **attributes: Any) -> str:
    return _declare(names, default, attributes | {"default": default})


def optional_string_flag(*names: str, default: str, implied: str, **attributes: Any) -> str:
    """Declare a flag whose value must follow an equals sign. Without a value the flag means `implied`."""
    return _declare(names, default, attributes | {"default": default, "is_flag": False, "flag_value": implied})


def bool_flag(*names: str, default: bool = False, **attributes: Any) -> bool:
    return _declare(names, default, attributes | {"is_flag": True} | ({"default": True} if default else {}))


def int_flag(*names: str, default: int, **attributes: Any) -> int:
    return _declare(names, default, attributes | {"type": click.INT, "default": default})


def duration_flag(*names: str, default_s: float, **attributes: Any) -> float:
    """Declare a flag with a duration such as 1m30s, whose value is in seconds."""
    return _declare(names, default_s, attributes | {"type": DURATION, "default": default_s})


def string_array_flag(*names: str, **attributes: Any) -> tuple[str, ...]:
    """Declare a repeatable flag."""
    return _declare(names, (), attributes | {"multiple": True})


def string_slice_flag(*names: str, default: tuple[str, ...] = (), **attributes: Any) -> tuple[str, ...]:
    """Declare a repeatable flag whose values are comma-separated lists."""
    attributes |= {"default": list(default)} if default else {}
    return _declare(names, default, attributes | {"multiple": True, "type": STRING_SLICE})


def _declare(names: tuple[str, ...], default: T, attributes: Mapping[str, Any]) -> T:
    return field(default=default, metadata={_KEY: _Flag(names, attributes, default)})


def flag_group(
    options_type: type[T], *, omitted: Sequence[str] = (), defaults: Mapping[str, Any] | None = None, **texts: str
) -> T:
    """Declare a field that is a dataclass with the flags of a group. The command does not have the flags of `omitted`
    fields. `texts` are inserted into the help texts of the group."""
    group = _Group(options_type, omitted, defaults, texts)
    return field(default_factory=partial(options_type, **group.defaults), metadata={_KEY: group})


def arguments() -> tuple[str, ...]:
    """Declare the field with the words of the command line that are neither flags nor values of flags."""
    return field(default=(), metadata={_KEY: lambda parsed: tuple(parsed.words)})


def arguments_before_dash() -> int:
    """Declare the field with the number of words before `--`, or -1 without `--`."""
    return field(default=-1, metadata={_KEY: lambda parsed: parsed.args_before_dash})


def changed_flags() -> frozenset[str]:
    """Declare the field with the names of the flags that the command line sets."""
    return field(
        default=frozenset(), metadata={_KEY: lambda parsed: frozenset(name.replace("_", "-") for name in parsed.values)}
    )


class OptionSet(Generic[T]):
    """The flags of a dataclass of options."""

    def __init__(self, options_type: type[T]) -> None:
        self.flags: list[click.Option] = []
        self._build: Callable[[ParsedFlags], T] = self._compile(options_type, _Group(options_type))
        repeated = [
            name for name, count in Counter(name for flag in self.flags for name in flag.opts).items() if count > 1
        ]
        if repeated:
            raise TypeError(f"{options_type.__name__}: several fields have the flag {', '.join(repeated)}")

    def build(self, parsed: ParsedFlags) -> T:
        """Return the options of a command line. Flags that it does not set have their defaults."""
        return self._build(parsed)

    def _compile(self, options_type: type[Any], group: _Group) -> _Reader:
        readers = {
            part.name: self._reader(options_type, part.name, part.metadata.get(_KEY), group)
            for part in fields(options_type)
            if part.name not in group.omitted
        }
        return lambda parsed: options_type(**{name: read(parsed) for name, read in readers.items()})

    def _reader(self, options_type: type[Any], name: str, declaration: Any, group: _Group) -> _Reader:
        if isinstance(declaration, _Group):
            return self._compile(declaration.options_type, declaration)
        if isinstance(declaration, _Flag):
            return self._add_flag(declaration, group.defaults.get(name, declaration.default), group.texts)
        if callable(declaration):
            reader: _Reader = declaration
            return reader
        raise TypeError(f"{options_type.__name__}.{name} is not declared as a flag")

    def _add_flag(self, flag: _Flag, default: Any, texts: Mapping[str, str]) -> _Reader:
        attributes = dict(flag.attributes)
        if default != flag.default:
            attributes["default"] = default
        if texts:
            attributes["help"] = attributes["help"].format(**texts)
        option_type = DeprecatedOption if "message" in attributes else click.Option
        option = option_type(flag.names, **attributes)
        self.flags.append(option)
        key = str(option.name)
        return lambda parsed: parsed.values.get(key, default)
