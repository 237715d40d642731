"""Write the reference pages of the documentation from the code: the flags of every command, the metrics and the feature
gates.

`python tools/reference.py` writes docs/reference/; with `--check` it only reports pages that are out of date.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from sampan.api.feature_gates import IMPLEMENTED_GATES, LEVELS, FeatureGates, gate_history
from sampan.api.kubernetes_version import MAJOR, MINOR_VERSION
from sampan.cli.gates import describe_spec
from sampan.cli.main import cli
from sampan.testing import Cluster

ROOT = Path(__file__).resolve().parent.parent
DIRECTORY, SOURCE = ROOT / "docs/reference", ROOT / "src/sampan"
_METRIC_TYPES = {"counter": "counter", "gauge": "gauge", "histogram": "histogram", "distributions": "histogram"}
_GENERATED = "<!-- Written by tools/reference.py from the code. Do not edit. -->"
_HOME = re.compile(re.escape(str(Path.home())) + r"(?=/)")


def pages() -> dict[str, str]:
    """Return the text of each page by its file name."""
    return {
        "commands.md": commands_page(is_kubectl=False),
        "kubectl.md": commands_page(is_kubectl=True),
        "metrics.md": metrics_page(),
        "feature-gates.md": feature_gates_page(),
    }


# -- commands --------------------------------------------------------------------------------------------------------


def commands_page(*, is_kubectl: bool) -> str:
    """Return the page of Sampan's own commands, or of those of `sampan kubectl`."""
    title = "Flags of sampan kubectl" if is_kubectl else "Flags of all commands"
    lines = [_GENERATED, "", f"# {title}", ""]
    root = click.Context(cli, info_name="sampan")
    for name in cli.list_commands(root):
        if (name == "kubectl") is is_kubectl and (command := cli.get_command(root, name)) is not None:
            lines += _command_lines(command, click.Context(command, info_name=name, parent=root), f"sampan {name}")
    return "\n".join(lines).rstrip() + "\n"


def _command_lines(command: click.Command, context: click.Context, path: str) -> Iterator[str]:
    yield f"## {path}"
    yield ""
    if summary := command.get_short_help_str(limit=1000):
        yield summary
        yield ""
    rows = [row for parameter in command.get_params(context) if (row := _row(parameter, context))]
    if rows:
        yield "| flag | meaning |"
        yield "|---|---|"
        yield from rows
        yield ""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                child_context = click.Context(child, info_name=name, parent=context)
                yield from _command_lines(child, child_context, f"{path} {name}")


def _row(parameter: click.Parameter, context: click.Context) -> str:
    record = parameter.get_help_record(context)
    if record is None or "--help" in parameter.opts or not record[1]:
        return ""
    flag, meaning = (_HOME.sub("~", " ".join(text.split())).replace("|", "\\|") for text in record)
    return f"| `{flag}` | {meaning.replace('<', '&lt;').replace('*', chr(92) + '*')} |"


# -- metrics ---------------------------------------------------------------------------------------------------------


def metrics_page() -> str:
    """Return the page of all metrics: those that the code declares with a literal name, and those that a cluster
    declares when it starts."""
    lines = [_GENERATED, "", "# Metrics", ""]
    lines += [
        "A cluster in one process serves its metrics at `/metrics` of the API server and of the kubelets; a component"
    ]
    lines += [
        "component that runs alone serves them at its own port.",
        "",
        "| metric | type | meaning |",
        "|---|---|---|",
    ]
    rows = {name: (kind, meaning) for name, kind, meaning in _served_metrics()}
    rows |= {name: (kind, text) for path in SOURCE.rglob("*.py") for name, kind, text in _declared_metrics(path)}
    lines += [f"| `{name}` | {kind} | {meaning} |" for name, (kind, meaning) in sorted(rows.items())]
    return "\n".join(lines) + "\n"


def _served_metrics() -> Iterator[tuple[str, str, str]]:
    with Cluster(nodes=1) as cluster:
        text = cluster.assembly.server.metrics.text()
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    for name, meaning in re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE):
        yield name, kinds[name], meaning


def _declared_metrics(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and meaning of the metrics that a module declares with a literal name."""
    module = ast.parse(path.read_text())
    texts = dict(_constants(module))
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _METRIC_TYPES:
            name, meaning = (_text(argument, texts) for argument in (*node.args[:2], *[None] * 2)[:2])
            if name and meaning:
                yield name, _METRIC_TYPES[node.func.attr], meaning


def _constants(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the names of a module that are texts, also those that are assigned as a tuple."""
    for node in module.body:
        if not isinstance(node, ast.Assign):
            continue
        [target], value = node.targets[:1], node.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=False))
        for name, content in pairs:
            if isinstance(name, ast.Name) and isinstance(content, ast.Constant) and isinstance(content.value, str):
                yield name.id, content.value


def _text(node: ast.expr | None, texts: Mapping[str, str]) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Name):
        return texts.get(node.id, "")
    return ""


# -- feature gates ---------------------------------------------------------------------------------------------------


def feature_gates_page() -> str:
    """Return the page of the feature gates of all levels."""
    levels = [dict(FeatureGates(level=level).specs()) for level in LEVELS]
    versions = " | ".join(f"{MAJOR}.{level}" for level in LEVELS)
    lines = [_GENERATED, "", "# Feature gates", ""]
    lines += [
        "The stage and the default of each feature gate in each version of Kubernetes. A gate that is not switchable",
        f"can only have the default of v{MINOR_VERSION}, which Sampan implements. `sampan gates -o wide` also shows",
        "older versions.",
        "",
        f"| gate | {versions} | switchable |",
        f"|---|{'---|' * len(levels)}---|",
    ]
    for name in sorted(gate_history()):
        states = (describe_spec(level[name]) if name in level else "" for level in levels)
        lines.append(f"| {name} | {' | '.join(states)} | {'yes' if name in IMPLEMENTED_GATES else ''} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    is_check = "--check" in sys.argv[1:]
    outdated = {name: text for name, text in pages().items() if _read(DIRECTORY / name) != text}
    if is_check and outdated:
        raise SystemExit(f"out of date: {', '.join(outdated)}; run `make reference`")
    DIRECTORY.mkdir(exist_ok=True)
    for name, text in outdated.items():
        (DIRECTORY / name).write_text(text)


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


if __name__ == "__main__":
    main()
