"""Dataclasses of options: their flags, and the values that a command line gives them."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import pytest

from sampan.cli.kubectl import command
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flag_parser import FlagSet, ParsedFlags
from sampan.kubectl.command_line.flags import (
    OptionSet,
    arguments,
    arguments_before_dash,
    bool_flag,
    changed_flags,
    duration_flag,
    flag_group,
    int_flag,
    optional_string_flag,
    string_array_flag,
    string_flag,
    string_slice_flag,
)
from tests.kubectl.command_line.commands import all_commands


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    names: tuple[str, ...] = string_slice_flag("-f", "--filename", help="Files {action}.")
    directory: str = string_flag("-k", "--kustomize", help="A directory.")
    waits: bool = bool_flag("--wait", help="Wait.")


@dataclass(frozen=True, kw_only=True)
class WorkOptions:
    words: tuple[str, ...] = arguments()
    count: int = int_flag("--replicas", default=3, help="A number.")
    files: FileOptions = flag_group(FileOptions, omitted=("directory",), defaults={"waits": True}, action="to work on")
    dry_run: str = optional_string_flag("--dry-run", default="none", implied="client", help="A mode.")
    timeout_s: float = duration_flag("--timeout", default_s=1.0, help="A time.")
    labels: tuple[str, ...] = string_array_flag("-l", "--label", help="Labels.")
    words_before_dash: int = arguments_before_dash()
    changed: frozenset[str] = changed_flags()


def parse(*args: str) -> WorkOptions:
    options = OptionSet(WorkOptions)
    return options.build(FlagSet(options.flags).parse(args))


def test_options_have_their_defaults_without_a_command_line() -> None:
    assert parse() == WorkOptions(files=FileOptions(waits=True))


def test_options_have_the_values_of_the_command_line() -> None:
    options = parse(
        "a", "--replicas=5", "-f", "x,y", "-fz", "--wait=false", "--dry-run", "--timeout=2m", "-l=p,q", "--", "b"
    )
    assert options == WorkOptions(
        words=("a", "b"),
        count=5,
        files=FileOptions(names=("x", "y", "z"), waits=False),
        dry_run="client",
        timeout_s=120.0,
        labels=("p,q",),
        words_before_dash=1,
        changed=frozenset({"replicas", "filename", "wait", "dry-run", "timeout", "label"}),
    )


def test_a_group_has_the_texts_and_the_flags_of_the_command() -> None:
    flags = OptionSet(WorkOptions).flags
    assert [flag.opts[-1] for flag in flags] == [
        "--replicas",
        "--filename",
        "--wait",
        "--dry-run",
        "--timeout",
        "--label",
    ]
    assert flags[1].help == "Files to work on."


def test_a_field_without_a_flag_is_refused() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Incomplete:
        name: str = string_flag("--name", help="A name.")
        number: int = 0

    with pytest.raises(TypeError, match="number is not declared as a flag"):
        OptionSet(Incomplete)


def test_two_fields_with_one_flag_are_refused() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Ambiguous:
        name: str = string_flag("-n", "--name", help="A name.")
        number: int = int_flag("-n", "--number", default=0, help="A number.")

    with pytest.raises(TypeError, match="several fields have the flag -n"):
        OptionSet(Ambiguous)


@pytest.mark.parametrize(("path", "inner"), sorted(all_commands(command).items()))
def test_the_options_of_every_command_are_frozen_and_complete(path: str, inner: KubectlCommand) -> None:
    """A command line without flags gives each field a value of its declared type."""
    assert inner.options_type is None or (is_dataclass(inner.options_type) and _is_complete(inner.options_type))


def _is_complete(options_type: type[Any]) -> bool:
    options = OptionSet(options_type).build(ParsedFlags())
    types: dict[str, type[Any]] = {"str": str, "bool": bool, "int": int, "float": float, "tuple[str, ...]": tuple}
    values = {part.type: getattr(options, part.name) for part in fields(options_type)}
    return options_type.__dataclass_params__.frozen and all(
        is_dataclass(value) or type(value) is types.get(str(declared), frozenset) for declared, value in values.items()
    )
