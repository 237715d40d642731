"""Everything that caches results of user input is a `BoundedCache`, which bounds the bytes of its keys and values."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

KEYS_FROM_SOURCE = {
    "api/codec/pieces.py": "types of the source",
    "api/codec/protobuf/envelope.py": "versions and kinds that have a type",
    "api/go_compat/internal_view.py": "types of the source",
    "api/resources/runtime_config.py": "built-in kinds",
    "api/scheme.py": "versions and kinds that have a type",
    "apiserver/descriptions.py": "names of built-in definitions",
    "apiserver/registry/behavior.py": "types of the source",
    "apiserver/registry/declarative/compiler.py": "types of the source",
    "apiserver/registry/kinds/__init__.py": "built-in kinds",
    "kubelet/devices/dra/drivers.py": "services of the source",
    "kubelet/plugin_registry/calls.py": "files of the package",
    "machinery/cel/admission.py": "a flag",
    "machinery/cel/environment.py": "libraries of the source",
    "machinery/client/codecs.py": "kinds of the source",
    "machinery/multiplex/websocket.py": "256 bytes",
    "machinery/telemetry/build_info.py": "levels",
    "network/mesh/config.py": "kinds of links",
    "runtimes/oci/cgroups.py": "numbers of block devices of the machine",
}
"""Modules that use `functools.cache` for functions with parameters, and where the arguments come from."""

OTHER_COLLECTIONS = {
    "api/codec/protobuf/envelope.py": "a buffer of one connection",
    "apiserver/admission/event_rate_limit.py": "keys are hashes",
    "apiserver/nonresource/openapi/handler.py": "a dozen documents that this server generates",
    "apiserver/customresources/objects/schema_validator.py": "errors of one object",
    "cluster/snapshot/store_file.py": "a page of a snapshot",
    "controllers/devices/resource_claims.py": "UIDs",
    "controllers/garbage/objects.py": "names of owners that were looked up, 5,000 of them",
    "dashboard/login.py": "addresses and hashes",
    "dashboard/views/completion.py": "keys are hashes, values a few documents of the API server",
    "host/bounded_cache.py": "the bounded cache",
    "host/http/head.py": "four blocks of headers of one connection, each of at most 4 KiB",
    "host/linux/directory_trees.py": "the position of one walk, and directories that are being measured",
    "machinery/multiplex/spdy_frames.py": "a buffer of one connection",
    "network/dns/cluster_dns.py": "IP addresses",
    "network/proxy/userspace/endpoint_sockets.py": "IP addresses and ports",
    "runtimes/docker/streaming.py": "a buffer of one connection",
    "runtimes/monitor/protocol.py": "a buffer of one connection",
    "runtimes/safe_paths.py": "the parts of one path",
    "scheduler/cache/arrays.py": "numbers of rows",
    "scheduler/cache/pod_counts.py": "classes of pods, which are counted anyway",
    "scheduler/cache/workload_selectors.py": "label groups, cleared with every change of a workload",
    "scheduler/cycle/decision_recorder.py": "UIDs, and events of at most a kilobyte",
    "scheduler/devices/allocated_devices.py": "names of devices",
    "scheduler/devices/device_inventory.py": "names of attributes of devices",
    "scheduler/devices/device_selectors.py": "expressions of stored selectors, 64 of at most 10 KiB",
    "scheduler/devices/pod_allocation.py": "requests of stored claims, 128 of them",
    "scheduler/framework/framework.py": "signatures of pending pods, which are stored",
    "storage/cacher/contents.py": "16 names of labels",
    "storage/watch_hub.py": "prefixes of storage keys, whose parts are valid names",
}
"""Modules that drop entries of a collection when there are too many, and why that bounds their memory."""


def test_functools_caches_only_results_of_the_source(repository: Path) -> None:
    source = repository / "src/sampan"
    assert {name for name, tree in _modules(source) if _has_functools_cache(tree)} == set(KEYS_FROM_SOURCE)


def test_lru_cache_is_not_used(repository: Path) -> None:
    """It bounds the number of entries, but not their size, and users can make most keys as large as a request."""
    source = repository / "src/sampan"
    assert [name for name, tree in _modules(source) if "lru_cache" in _imported_names(tree)] == []


def test_collections_that_drop_entries_have_small_ones(repository: Path) -> None:
    source = repository / "src/sampan"
    assert {name for name, tree in _modules(source) if _drops_entries(tree)} == set(OTHER_COLLECTIONS)


def _modules(source: Path) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(source.rglob("*.py")):
        yield str(path.relative_to(source)), ast.parse(path.read_text())


def _imported_names(tree: ast.Module) -> set[str]:
    return {name.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for name in node.names}


def _has_functools_cache(tree: ast.Module) -> bool:
    """Whether a function with parameters is decorated with `cache`."""
    return any(
        ast.unparse(decorator) in ("cache", "functools.cache") and ast.unparse(node.args)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
    )


def _drops_entries(tree: ast.Module) -> bool:
    """Whether entries of a collection are removed because of its length: `if len(known) > MOST: known.popitem()`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.While) and (name := _name_of_long_collection(node.test)):
            body = "\n".join(map(ast.unparse, node.body))
            if any(f"{name}{removal}" in body for removal in (".clear()", ".pop")) or f"del {name}[" in body:
                return True
    return False


def _name_of_long_collection(test: ast.expr) -> str:
    """Return `x` if the condition contains `len(x) > ...` or `len(x) >= ...`."""
    for node in ast.walk(test):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Gt | ast.GtE):
            call = node.left
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "len":
                return ast.unparse(call.args[0])
    return ""
