"""The help of commands, in the order of kubectl: description, examples, commands, options, usage
(`pkg/util/templates`).

The texts of `examples` are imported only when help is printed.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

import click

from sampan.kubectl.errors import command_path

_WIDTH = 80
_SHELL_WORD = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""")
_LEFT_COLUMN = 32
"""The most columns of the names in a list; the text of a longer name begins on the next line."""


def help_text(ctx: click.Context, command: click.Command) -> str:
    """Return the help of a command, in lines of at most 80 columns unless a word is longer."""
    from sampan.kubectl.command_line.help_text.examples import usage_and_examples

    path = command_path(ctx).removeprefix("kubectl").strip()
    usage, examples = usage_and_examples(path)
    formatter = click.HelpFormatter(width=min(ctx.terminal_width or _WIDTH, _WIDTH))
    _write_description(formatter, command)
    if examples:
        with formatter.section("Examples"):
            for line in examples.strip("\n").split("\n"):
                formatter.write(_example_lines(line, program_name(ctx), formatter.width))
    if isinstance(command, click.Group):
        command.format_commands(ctx, formatter)
    options = [param for param in command.params if isinstance(param, click.Option)]
    records = [record for option in options if (record := option.get_help_record(ctx)) is not None]
    if records:
        write_rows(formatter, "Options", records)
    with formatter.section("Usage"):
        words = " ".join(part for part in (program_name(ctx), path, usage) if part)
        formatter.write("\n".join(_wrap(words, formatter.width, "  ", "    ")) + "\n")
    _write_references(formatter, ctx, command, path)
    return formatter.getvalue().strip("\n")


def program_name(ctx: click.Context) -> str:
    """Return how the user calls kubectl: `sampan kubectl`, or `kubectl` if the program itself has that name."""
    names: list[str] = []
    current: click.Context | None = ctx
    while current is not None:
        names.append(current.info_name or "")
        current = current.parent
    names.reverse()
    return " ".join(filter(None, names[: names.index("kubectl") + 1])) if "kubectl" in names else "kubectl"


def write_commands(formatter: click.HelpFormatter, ctx: click.Context, group: click.Group, title: str) -> None:
    """Write the sub-commands of a group with the first sentence of their descriptions."""
    commands = [(name, group.get_command(ctx, name)) for name in group.list_commands(ctx)]
    rows = [(name, command.get_short_help_str(limit=1000)) for name, command in commands if command is not None]
    if rows:
        write_rows(formatter, title, rows)


def write_rows(formatter: click.HelpFormatter, title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Write names with texts beside them. Unlike those of click, words with hyphens stay together."""
    width = min(max(len(name) for name, _ in rows), _LEFT_COLUMN) + 4
    with formatter.section(title):
        for name, text in rows:
            first_indent = f"  {name}".ljust(width)
            if len(name) > width - 4:
                formatter.write(f"  {name}\n")
                first_indent = " " * width
            formatter.write("\n".join(_wrap(text, formatter.width, first_indent, " " * width)) + "\n")


def _wrap(text: str, width: int, first_indent: str, indent: str) -> list[str]:
    wrapper = textwrap.TextWrapper(
        width, initial_indent=first_indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return wrapper.wrap(text) or [first_indent.rstrip()]


def _write_description(formatter: click.HelpFormatter, command: click.Command) -> None:
    for index, paragraph in enumerate((command.help or "").split("\n\n")):
        if index:
            formatter.write_paragraph()
        if paragraph.startswith("\b"):
            formatter.write(paragraph.removeprefix("\b").strip("\n") + "\n")
        else:
            formatter.write_text(" ".join(paragraph.split()))


def _example_lines(line: str, program: str, width: int) -> str:
    """Return the line of an example, continued with backslashes if it is too long."""
    if not line or line.startswith("#"):
        return f"  {line}".rstrip() + "\n"
    text = line[1:].replace("sampan kubectl", program) if line.startswith("|") else f"{program} {line}"
    lines = ["  "]
    for word in _SHELL_WORD.findall(text):
        if len(lines[-1]) + len(word) > width - len(" \\"):
            lines.append("    ")
        lines[-1] += word + " "
    return " \\\n".join(part.rstrip() for part in lines) + "\n"


def _write_references(formatter: click.HelpFormatter, ctx: click.Context, command: click.Command, path: str) -> None:
    program = program_name(ctx)
    lines = [f'Use "{program} options" for the flags that all commands take.']
    if isinstance(command, click.Group):
        name = f"{program} {path}".strip()
        lines.insert(0, f'Use "{name} COMMAND --help" for more information about a command.')
    formatter.write_paragraph()
    for line in lines:
        formatter.write_text(line)
