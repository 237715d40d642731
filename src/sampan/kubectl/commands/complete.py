"""The hidden command `kubectl __complete`, which shells run to complete a command line (`pkg/util/completion`).

Its words are those of the command line after `kubectl`; the last one is to be completed. It never fails: without a
cluster it completes only commands and flags.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand, KubectlGroup
from sampan.kubectl.command_line.global_options import GLOBAL_FLAGS
from sampan.kubectl.printers import GET_FORMATS

_POD_COMMANDS = frozenset({"logs", "exec", "attach", "port-forward", "debug", "cp"})
_NODE_COMMANDS = frozenset({"cordon", "uncordon", "drain"})
_OBJECT_COMMANDS = frozenset(
    {"get", "describe", "delete", "edit", "label", "annotate", "patch", "scale", "wait", "expose", "autoscale", "taint"}
)
_ENTRY_COMMANDS = {
    "use-context": "contexts",
    "delete-context": "contexts",
    "rename-context": "contexts",
    "get-contexts": "contexts",
    "set-context": "contexts",
    "delete-cluster": "clusters",
    "set-cluster": "clusters",
    "delete-user": "users",
    "set-credentials": "users",
}
_ENTRY_FLAGS = {"context": "contexts", "cluster": "clusters", "user": "users"}


@click.command("__complete", hidden=True, context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...]) -> None:
    """Print the candidates for the last word."""
    *before, prefix = words or ("",)
    try:
        candidates = sorted(set(_candidates(ctx, before, prefix)))
    except (click.ClickException, OSError, ValueError):
        candidates = []
    for candidate in candidates:
        if candidate.startswith(prefix):
            click.echo(candidate)


def _candidates(ctx: click.Context, before: Sequence[str], prefix: str) -> Iterable[str]:
    command, path, args = _root(ctx), [], list(before)
    while isinstance(command, KubectlGroup) and (subcommand := command.find_subcommand(ctx, args)) is not None:
        name, command, args = subcommand
        path.append(name)
    if not isinstance(command, KubectlCommand):
        return []
    flags = command.flag_set()
    if args and (option := flags.option_without_value(args[-1])) is not None:
        return _flag_values(option, _factory(ctx, command, args[:-1]), flags.words(args[:-1]))
    if prefix.startswith("-"):
        return [f"--{name}" for name, option in flags.options() if not option.hidden] + ["--help"]
    words = flags.words(args)
    if isinstance(command, KubectlGroup):
        names = command.list_commands(ctx)
        return names if not words else []
    return _words(path, words, prefix, _factory(ctx, command, args))


def _root(ctx: click.Context) -> click.Command:
    assert ctx.parent is not None
    return ctx.parent.command


def _factory(ctx: click.Context, command: KubectlCommand, args: Sequence[str]) -> Factory:
    return command.new_factory(ctx, command.flag_set().parse(args))


def _flag_values(option: click.Option, factory: Factory, words: Sequence[str]) -> Iterable[str]:
    name = str(option.name)
    if name == "container":
        return _containers(factory, words[0]) if words else []
    if name == "namespace":
        return _names(factory, "namespaces")
    if name == "output":
        return GET_FORMATS
    return _entries(factory, _ENTRY_FLAGS[name]) if option in GLOBAL_FLAGS and name in _ENTRY_FLAGS else []


def _words(path: Sequence[str], words: Sequence[str], prefix: str, factory: Factory) -> Iterable[str]:
    name = path[-1] if path else ""
    if path[:1] == ["config"]:
        return _entries(factory, _ENTRY_COMMANDS[name]) if name in _ENTRY_COMMANDS else []
    if name in _NODE_COMMANDS or path == ["top", "node"]:
        return _names(factory, "nodes")
    if path == ["top", "pod"]:
        return _names(factory, "pods") if not words else []
    if name in _POD_COMMANDS:
        if "/" in prefix:
            return _list_prefixed_names(factory, prefix)
        return [*_names(factory, "pods"), *_types(factory, "/")] if not words else []
    if name == "explain":
        return _types(factory) if not words else []
    if name in _OBJECT_COMMANDS or path[:1] in (["rollout"], ["set"]):
        if "/" in prefix:
            return _list_prefixed_names(factory, prefix)
        if not words:
            return _types(factory)
        return [] if "/" in words[0] else _names(factory, words[0])
    return []


def _list_prefixed_names(factory: Factory, prefix: str) -> list[str]:
    kind = prefix.partition("/")[0]
    return [f"{kind}/{name}" for name in _names(factory, kind)]


def _types(factory: Factory, suffix: str = "") -> list[str]:
    return [kind.group_resource + suffix for kind in factory.kinds.list_preferred() if "list" in kind.verbs or suffix]


def _names(factory: Factory, word: str) -> list[str]:
    kind = factory.kinds.find_by_name(word.split(",")[-1])
    namespace = factory.namespace if kind.is_namespaced else ""
    items = factory.session.get(kind.collection(namespace)).get("items") or ()
    return [str(item["metadata"]["name"]) for item in items]


def _containers(factory: Factory, pod: str) -> list[str]:
    """Return the names of a pod's containers; a pod may be given as its name alone."""
    kind = factory.kinds.find_by_name("pods")
    path = f"{kind.collection(factory.namespace)}/{pod.removeprefix('pod/').removeprefix('pods/')}"
    spec = factory.session.get(path).get("spec") or {}
    return [str(part["name"]) for field in ("initContainers", "containers") for part in spec.get(field) or ()]


def _entries(factory: Factory, section: str) -> list[str]:
    from sampan.kubectl.commands.config.files import ConfigFiles

    return list(ConfigFiles(factory.options.kubeconfig).load().entries[section])
