"""Value types: canonical quantities and times, name checks, selector parsing and matching."""

from collections.abc import Iterator
from itertools import cycle

from benchmarks import Row
from benchmarks.timing import best_ns
from sampan.api import names
from sampan.api.selectors import labels
from sampan.api.values import quantity, times

LABELS = {"app": "web", "tier": "front", "pod-template-hash": "7d4b9c6f5", "example.com/zone": "z1"}


def rows() -> Iterator[Row]:
    fresh = cycle([f"{number}.5Mi" for number in range(40_000)])
    one, three = labels.parse("app=web"), labels.parse("app=web,tier in (front,back),!old")
    yield Row("quantity: canonical, seen before", best_ns(lambda: quantity.canonical("256Mi")), "ns", 200)
    yield Row("quantity: canonical, new", best_ns(lambda: quantity.canonical(next(fresh))), "ns", 8000)
    yield Row("time: canonical", best_ns(lambda: times.canonical_time("2026-11-15T08:58:10Z")), "ns", 600)
    yield Row("name: check a pod's name", best_ns(lambda: names.dns1123_subdomain("web-7d4b9c6f5-x2x9k")), "ns", 900)
    yield Row("name: check a label key", best_ns(lambda: names.label_key("example.com/zone")), "ns", 250)
    yield Row("label selector: parse, seen before", best_ns(lambda: labels.parse("app=web,tier=front")), "ns", 250)
    yield Row("label selector: match one term", best_ns(lambda: one.matches(LABELS)), "ns", 200)
    yield Row("label selector: match three terms", best_ns(lambda: three.matches(LABELS)), "ns", 700)
