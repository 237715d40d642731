"""The API types: importing them all, the schema trees, and the JSON codec on a pod of 3.5 KB."""

import importlib
import json
import pkgutil
import time
from collections.abc import Iterator

from benchmarks import Row
from benchmarks.sample_pods import running_pod
from benchmarks.timing import best_us


def rows() -> Iterator[Row]:
    yield from imports()
    yield from schema_trees()
    yield from codec()


def imports() -> Iterator[Row]:
    """Measure the import first, while only msgspec is loaded."""
    import sampan.api.values.scalars  # noqa: F401 - not a type, and others need it too

    start = time.perf_counter()
    from sampan.api import types

    for module in pkgutil.iter_modules(types.__path__):
        importlib.import_module(f"sampan.api.types.{module.name}")
    yield Row("import all API types", (time.perf_counter() - start) * 1e3, "ms", 120, "795 types in 40 modules")


def schema_trees() -> Iterator[Row]:
    from sampan.api.schema import schemas

    start = time.perf_counter()
    schemas.definition("io.k8s.api.core.v1.Pod")
    yield Row("schema tree of a pod, first use", (time.perf_counter() - start) * 1e3, "ms", 15)
    for name in schemas.names():
        schemas.definition(name)
    yield Row("schema trees of everything", (time.perf_counter() - start) * 1e3, "ms", 15)


def codec() -> Iterator[Row]:
    from sampan.api.codec import json as codec
    from sampan.api.codec import parsed
    from sampan.api.types.core_v1 import Pod

    body = codec.encode(codec.from_value(running_pod(), Pod))
    odd = body.replace(b'"metadata":{', b'"unknown":1,"metadata":{', 1)
    note = f"{len(body)} bytes"
    obj = codec.read(body, Pod)
    yield Row("pod: decode and encode", best_us(lambda: codec.encode(codec.read(body, Pod))), "us", 40, note)
    yield Row("pod: decode", best_us(lambda: codec.read(body, Pod)), "us")
    yield Row("pod: encode", best_us(lambda: codec.encode(obj)), "us")
    yield Row("pod: decode strictly", best_us(lambda: codec.decode(body, Pod)), "us", 60, "unknown and repeated fields")
    yield Row("pod: look for repeated fields", best_us(lambda: parsed.may_have_duplicates(body)), "us")
    yield Row("the same with the standard library", best_us(lambda: _pairs(body)), "us", note="json, object_pairs_hook")
    yield Row("pod: decode with an unknown field", best_us(lambda: codec.decode(odd, Pod), times=30), "us", 400)
    yield Row("pod: as a plain value", best_us(lambda: codec.decode_any(body)), "us")


def _pairs(body: bytes) -> object:
    def check(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        assert len(found) == len(pairs)
        return found

    return json.loads(body, object_pairs_hook=check)
