"""The protobuf codec on a pod of 3.5 KB of JSON, and what the first use of its tables costs."""

import json
import time
from collections.abc import Iterator

from benchmarks import Row
from benchmarks.sample_pods import running_pod
from benchmarks.timing import best_us


def rows() -> Iterator[Row]:
    start = time.process_time()
    from sampan.api.codec import protobuf

    obj = running_pod()
    data = protobuf.encode(obj)
    protobuf.decode(data)
    first_ms = (time.process_time() - start) * 1e3
    note = f"{len(json.dumps(obj, separators=(',', ':')))} bytes of JSON, {len(data)} of protobuf"
    yield Row("protobuf: first use (import, table, a pod)", first_ms, "ms", None)
    yield Row("protobuf: decode a pod", best_us(lambda: protobuf.decode(data)), "us", 300, note)
    yield Row("protobuf: encode a pod", best_us(lambda: protobuf.encode(obj)), "us", 300, note)
