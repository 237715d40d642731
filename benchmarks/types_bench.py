"""The API types: importing them all, the schema trees, and the JSON codec on a pod of 3.5 KB."""

import importlib
import json
import pkgutil
import time
from collections.abc import Callable, Iterator

from benchmarks import Row
from benchmarks.protobuf_bench import pod


def rows() -> Iterator[Row]:
    yield from imports()
    yield from schema_trees()
    yield from codec()


def imports() -> Iterator[Row]:
    """First in this process, so that nothing is loaded yet but msgspec."""
    import sampan.api.scalars  # noqa: F401 - not a type, and others need it too

    start = time.perf_counter()
    from sampan.api import types

    for module in pkgutil.iter_modules(types.__path__):
        importlib.import_module(f"sampan.api.types.{module.name}")
    yield Row("import all API types", (time.perf_counter() - start) * 1e3, "ms", 120, "795 types in 40 modules")


def schema_trees() -> Iterator[Row]:
    from sampan.api import schemas

    start = time.perf_counter()
    schemas.definition("io.k8s.api.core.v1.Pod")
    yield Row("schema tree of a pod, first use", (time.perf_counter() - start) * 1e3, "ms", 15)
    for name in schemas.names():
        schemas.definition(name)
    yield Row("schema trees of everything", (time.perf_counter() - start) * 1e3, "ms", 15)


def codec() -> Iterator[Row]:
    from sampan.api.codec import duplicates
    from sampan.api.codec import json as codec
    from sampan.api.types.core_v1 import Pod

    body = codec.encode(codec.from_value(pod(), Pod))
    odd = body.replace(b'"metadata":{', b'"unknown":1,"metadata":{', 1)
    note = f"{len(body)} bytes"
    obj = codec.read(body, Pod)
    yield Row("pod: decode and encode", _best(lambda: codec.encode(codec.read(body, Pod))), "us", 40, note)
    yield Row("pod: decode", _best(lambda: codec.read(body, Pod)), "us")
    yield Row("pod: encode", _best(lambda: codec.encode(obj)), "us")
    yield Row("pod: decode strictly", _best(lambda: codec.decode(body, Pod)), "us", 60, "unknown and repeated fields")
    yield Row("pod: look for repeated fields", _best(lambda: duplicates.suspected(body)), "us")
    yield Row("the same with the standard library", _best(lambda: _pairs(body)), "us", note="json, object_pairs_hook")
    yield Row("pod: decode with an unknown field", _best(lambda: codec.decode(odd, Pod), 200), "us", 400)
    yield Row("pod: as a plain value", _best(lambda: codec.decode_any(body)), "us")


def _pairs(body: bytes) -> object:
    def check(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        assert len(found) == len(pairs)
        return found

    return json.loads(body, object_pairs_hook=check)


def _best(call: Callable[[], object], times: int = 2000) -> float:
    """Microseconds a call takes, best of several rounds."""
    best = float("inf")
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(times // 7):
            call()
        best = min(best, (time.perf_counter() - start) / (times // 7))
    return best * 1e6
