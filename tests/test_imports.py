"""The import graph of the source: no module needs itself to be imported, and few know each other's types."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

Graph = Mapping[str, set[str]]

MAX_TYPE_CYCLE = 7
"""The largest group of modules that may know each other's types, directly or indirectly."""
UNCHECKED = "sampan.kubectl"
"""The package whose run-time cycles are still allowed."""
COMPOSITION = ("apiserver/services.py", "apiserver/components.py", "apiserver/server.py", "cluster/assembly.py")
"""The modules that create the components of a server and of a cluster."""


def test_no_module_imports_itself_indirectly(repository: Path) -> None:
    """Imports in functions count too, as they only hide a cycle."""
    cycles = find_cycles(_graph(repository, has_type_imports=False))
    assert [cycle for cycle in cycles if not cycle[0].startswith(UNCHECKED)] == []


def test_few_modules_know_the_types_of_each_other(repository: Path) -> None:
    cycles = find_cycles(_graph(repository, has_type_imports=True))
    assert [cycle for cycle in cycles if len(cycle) > MAX_TYPE_CYCLE] == []


def test_composition_sets_no_attribute_of_another_object(repository: Path) -> None:
    """Objects are complete when they are created: `self.registry.webhooks = ...` would patch one."""
    patched = [
        f"{name}:{node.lineno}: {ast.unparse(node)}"
        for name in COMPOSITION
        for node in ast.walk(ast.parse((repository / "src/sampan" / name).read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and not _is_self(node.value)
    ]
    assert patched == []


def test_a_cycle_is_found_with_all_its_modules() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a", "f"}}
    assert find_cycles(graph) == [["a", "b", "c"], ["d", "e"]]


def find_cycles(graph: Graph) -> list[list[str]]:
    """Return the modules that import each other, directly or indirectly, in groups."""
    reachable = {name: _find_reachable(graph, name) for name in graph}
    groups = {
        tuple(sorted(other for other in reachable[name] if name in reachable[other]))
        for name in graph
        if name in reachable[name]
    }
    return sorted(list(group) for group in groups if len(group) > 1)


def _find_reachable(graph: Graph, start: str) -> set[str]:
    reachable, pending = set[str](), [start]
    while pending:
        for name in graph[pending.pop()] - reachable:
            reachable.add(name)
            pending.append(name)
    return reachable


def _graph(repository: Path, *, has_type_imports: bool) -> Graph:
    root = repository / "src"
    modules = {_module_name(path.relative_to(root)): path for path in (root / "sampan").rglob("*.py")}
    return {
        name: {
            module
            for imported in _imports(ast.parse(path.read_text()), has_type_imports)
            if (module := imported if imported in modules else imported.rpartition(".")[0]) in modules
        }
        - {name}
        for name, path in modules.items()
    }


def _module_name(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _imports(node: ast.AST, has_type_imports: bool) -> Iterator[str]:
    """Yield the names that a module imports: modules, and names in modules."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.module is not None, "imports are absolute"
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        elif has_type_imports or not _is_for_types(child):
            yield from _imports(child, has_type_imports)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"
