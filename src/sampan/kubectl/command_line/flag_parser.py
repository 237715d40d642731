"""Parse flags as pflag does: `-o=yaml`, `-oyaml`, `--wait=false`, `-Aw`, `--` as the end, and the texts of its errors.

Flags are declared as click options. `multiple` options collect their values (a `StringSlice` splits them at commas), an
option with a `flag_value` that is not a flag has an optional value, which must follow an equals sign.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_INT = re.compile(r"[+-]?\d+", re.ASCII)


class FlagError(ValueError):
    """A flag is unknown, lacks its value or has a wrong one."""


class UnknownFlagError(FlagError):
    """The command does not have a flag of this name."""


class ValueSyntaxError(ValueError):
    """The text of a flag is not a value of the flag's type; the message is that of Go's standard library."""


class StringSlice(click.ParamType[Any]):
    """The type of a repeated flag whose values are comma-separated lists."""

    name = "strings"


class DurationType(click.ParamType[Any]):
    """The type of a flag with a duration such as 1m30s, which is converted to seconds."""

    name = "duration"


class FileLevelsType(click.ParamType[Any]):
    """The type of a flag with a comma-separated list of file patterns, each with a log level (`--vmodule`)."""

    name = "moduleSpec"


class DeprecatedOption(click.Option):
    """An option that is accepted with a message, and that the help does not show. Its short name may be deprecated with
    the same message."""

    def __init__(self, *args: Any, message: str, has_deprecated_shorthand: bool = False, **attributes: Any) -> None:
        super().__init__(*args, **(attributes | {"hidden": True}))
        self.message, self.has_deprecated_shorthand = message, has_deprecated_shorthand


STRING_SLICE = StringSlice()
DURATION = DurationType()
FILE_LEVELS = FileLevelsType()


@dataclass(slots=True)
class ParsedFlags:
    values: dict[str, Any] = field(default_factory=dict)
    """The values of flags that the command line sets, by parameter name."""
    words: list[str] = field(default_factory=list)
    args_before_dash: int = -1
    """The number of words before `--`, or -1 without one."""
    has_help: bool = False
    deprecations: list[str] = field(default_factory=list)

    def add_deprecation(self, name: str, message: str) -> None:
        line = f"Flag {name} has been deprecated, {message}"
        if line not in self.deprecations:
            self.deprecations.append(line)


class FlagSet:
    """The flags of a command. Of two options with the same name the later one counts."""

    def __init__(self, options: Iterable[click.Option]) -> None:
        self._long: dict[str, click.Option] = {}
        self._short: dict[str, click.Option] = {}
        for option in options:
            for name in option.opts:
                (self._long if name.startswith("--") else self._short)[name.lstrip("-")] = option

    def parse(self, args: Sequence[str], *, is_interspersed: bool = True) -> ParsedFlags:
        """Parse the flags and words of a command line. Raise FlagError for the first flag that cannot be parsed."""
        parsed, remaining_args = ParsedFlags(), list(args)
        while remaining_args and not parsed.has_help:
            word = remaining_args.pop(0)
            if word == "--":
                parsed.args_before_dash = len(parsed.words)
                parsed.words += remaining_args
                break
            if len(word) < 2 or word[0] != "-":
                parsed.words.append(word)
                if not is_interspersed:
                    # like pflag, keep a `--` behind the first word of such a command as a word
                    parsed.words += remaining_args
                    break
            elif word[1] == "-":
                self._parse_long(word, remaining_args, parsed)
            else:
                self._parse_short(word, remaining_args, parsed)
        return parsed

    def words(self, args: Sequence[str]) -> list[str]:
        """Return the arguments that are neither flags nor values of flags."""
        words, remaining_args = [], list(args)
        while (position := self.position_of_word(remaining_args)) is not None:
            words.append(remaining_args[position])
            remaining_args = remaining_args[position + 1 :]
        return words

    def position_of_word(self, args: Sequence[str]) -> int | None:
        """Return the position of the first argument that is neither a flag nor the value of a flag. Like cobra, assume
        that an unknown flag has a value."""
        position = 0
        while position < len(args) and args[position] != "--":
            word = args[position]
            if not word.startswith("-") or word == "-":
                return position
            position += 2 if self._takes_next(word) else 1
        return None

    def options(self) -> Iterable[tuple[str, click.Option]]:
        """Return the long names of all flags, with the options."""
        return sorted(self._long.items())

    def option_without_value(self, word: str) -> click.Option | None:
        """Return the option of a flag whose value is the next argument; None if `word` is not such a flag."""
        if not word.startswith("-") or not self._takes_next(word):
            return None
        return self._option(word[2:]) if word.startswith("--") else self._short.get(word[1])

    def set_default(self, name: str, text: str, parsed: ParsedFlags) -> None:
        """Set a flag that the command line does not set. Raise FlagError for an unknown flag or a wrong value."""
        option = self._option(name)
        if option is None:
            raise UnknownFlagError(f"invalid flag {name}")
        if str(option.name) not in parsed.values:
            _set(option, text, parsed)

    def _takes_next(self, word: str) -> bool:
        if "=" in word or word in ("-h", "--help"):
            return False
        if word.startswith("--"):
            option = self._option(word[2:])
            return option is None or not _has_optional_value(option)
        if len(word) != 2:
            return False
        option = self._short.get(word[1])
        return option is None or not _has_optional_value(option)

    def _option(self, name: str) -> click.Option | None:
        return self._long.get(name.replace("_", "-"))

    def _parse_long(self, word: str, remaining_args: list[str], parsed: ParsedFlags) -> None:
        name, equals, text = word[2:].partition("=")
        if not name or name.startswith("-"):
            raise FlagError(f"bad flag syntax: {word}")
        option = self._option(name)
        if option is None:
            if name != "help":
                raise FlagError(f"unknown flag: --{name}")
            parsed.has_help = True
            return
        if not equals:
            if _has_optional_value(option):
                text = _implied_text(option)
            elif remaining_args:
                text = remaining_args.pop(0)
            else:
                raise FlagError(f"flag needs an argument: --{name}")
        _set(option, text, parsed)

    def _parse_short(self, word: str, remaining_args: list[str], parsed: ParsedFlags) -> None:
        letters = word[1:]
        while letters:
            letter, tail = letters[0], letters[1:]
            option = self._short.get(letter)
            if option is None:
                if letter != "h":
                    raise FlagError(f"unknown shorthand flag: {letter!r} in -{letters}")
                parsed.has_help = True
                return
            if isinstance(option, DeprecatedOption) and option.has_deprecated_shorthand:
                parsed.add_deprecation(f"shorthand -{letter}", option.message)
            if tail.startswith("="):
                _set(option, tail[1:], parsed)
                return
            if _has_optional_value(option):
                _set(option, _implied_text(option), parsed)
                letters = tail
                continue
            if not tail and not remaining_args:
                raise FlagError(f"flag needs an argument: {letter!r} in -{letters}")
            _set(option, tail or remaining_args.pop(0), parsed)
            return


def _has_optional_value(option: click.Option) -> bool:
    return option.is_flag or _flag_value(option) is not None


def _flag_value(option: click.Option) -> str | None:
    value = option.flag_value
    return value if isinstance(value, str) and not option.is_flag else None


def _implied_text(option: click.Option) -> str:
    return _flag_value(option) or "true"


def _set(option: click.Option, text: str, parsed: ParsedFlags) -> None:
    name = str(option.name)
    if isinstance(option, DeprecatedOption) and option.message:
        parsed.add_deprecation(f"--{_long_name(option)}", option.message)
    try:
        if option.multiple:
            values = split_at_commas(text) if isinstance(option.type, StringSlice) else (text,)
            parsed.values[name] = (*parsed.values.get(name, ()), *values)
        else:
            parsed.values[name] = _convert_text(option, text)
    except ValueSyntaxError as error:
        raise FlagError(f'invalid argument {quote_text(text)} for "{_format_names(option)}" flag: {error}') from None


def _convert_text(option: click.Option, text: str) -> Any:
    if option.is_flag:
        return parse_bool(text)
    if isinstance(option.type, type(click.INT)):
        return parse_int(text)
    if isinstance(option.type, DurationType):
        return parse_duration_s(text)
    if isinstance(option.type, FileLevelsType):
        return parse_file_levels(text)
    return text


def parse_bool(text: str) -> bool:
    if text not in _TRUE | _FALSE:
        raise ValueSyntaxError(f"strconv.ParseBool: parsing {quote_text(text)}: invalid syntax")
    return text in _TRUE


def parse_int(text: str) -> int:
    if not _INT.fullmatch(text):
        raise ValueSyntaxError(f"strconv.ParseInt: parsing {quote_text(text)}: invalid syntax")
    if len(text) > 20 or not -(1 << 63) <= int(text) < 1 << 63:
        raise ValueSyntaxError(f"strconv.ParseInt: parsing {quote_text(text)}: value out of range")
    return int(text)


def parse_duration_s(text: str) -> float:
    from sampan.api.values import durations

    try:
        return durations.parse_duration(text) / durations.SECOND
    except durations.DurationError as error:
        raise ValueSyntaxError(str(error)) from None


def parse_file_levels(text: str) -> str:
    for part in filter(None, text.split(",")):
        pattern, equals, level = part.partition("=")
        if not (pattern and equals and level) or "=" in level:
            raise ValueSyntaxError("syntax error: expect comma-separated list of filename=N")
        parse_int(level)
    return text


def split_at_commas(text: str) -> list[str]:
    """Split a value at commas, as a line of a CSV file."""
    if not text:
        return []
    import csv

    try:
        return next(csv.reader([text], strict=True))
    except csv.Error as error:
        raise ValueSyntaxError(f"parse error on line 1: {error}") from None


def quote_text(text: str) -> str:
    """Quote a text as Go's %q does."""
    from sampan.api.go_compat import gotext

    return gotext.quote(text)


def _long_name(option: click.Option) -> str:
    return next(name[2:] for name in option.opts if name.startswith("--"))


def _format_names(option: click.Option) -> str:
    short = [name for name in option.opts if not name.startswith("--")]
    return ", ".join([*short, f"--{_long_name(option)}"])
