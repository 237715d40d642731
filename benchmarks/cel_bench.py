"""Expressions in CEL: compiling and evaluating typical rules, and what the most expensive evaluations take."""

import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count

from benchmarks import Row
from benchmarks.timing import best_us
from sampan.machinery.cel import CostLimitExceeded, Environment
from sampan.machinery.cel.checker.types import DYN, INT, STRING, ObjectType, list_of
from sampan.machinery.cel.devices import compile_selector
from sampan.machinery.cel.library import BINDINGS

RULE = "self.replicas <= self.maxReplicas && self.name.startsWith('a')"
LOOP = "object.spec.containers.all(c, !has(c.privileged) && c.image.matches('^registry.example.com/'))"
SELECTOR = "device.driver == 'gpu.example.com' && device.attributes['gpu.example.com'].cores >= 4"
SHARED = "cel.bind(a, [[1], [2]], " + "".join("cel.bind(a, [a, a], " for _ in range(30)) + "a == a" + ")" * 31

SELF = ObjectType("Self", {"replicas": INT, "maxReplicas": INT, "name": STRING, "names": list_of(STRING)})
CONTAINERS = [{"name": f"c{number}", "image": f"registry.example.com/app:{number}"} for number in range(5)]
VALUES = {
    "self": {"replicas": 3, "maxReplicas": 10, "name": "abc", "names": ["n"] * 1000},
    "object": {"spec": {"containers": CONTAINERS}},
}
DEVICE = {
    "driver": "gpu.example.com",
    "attributes": {"gpu.example.com": {"cores": 8}},
    "capacity": {},
    "allowMultipleAllocations": False,
}


def rows() -> Iterator[Row]:
    environment = Environment({"self": SELF, "object": DYN}, libraries=(BINDINGS,))
    rule, loop, selector = environment.compile(RULE), environment.compile(LOOP), compile_selector(SELECTOR)
    yield Row("CEL: evaluate a rule of two comparisons", best_us(lambda: rule.evaluate(VALUES), times=5_000), "us", 3)
    yield Row("CEL: evaluate a loop over 5 containers", best_us(lambda: loop.evaluate(VALUES), times=5_000), "us", 40)
    yield Row("CEL: match a device", best_us(lambda: selector.matches(DEVICE), times=5_000), "us", 6)
    number = count()
    yield Row(
        "CEL: compile a rule",
        best_us(lambda: environment.compile(f"{RULE} && {next(number)} > 0"), times=500),
        "us",
        600,
    )
    yield Row(
        "CEL: evaluate a rule at the cost limit",
        _limit(environment, "self.names.all(a, self.names.all(b, a == b))"),
        "ms",
        300,
    )
    yield Row("CEL: the same with nested lists", _limit(environment, SHARED), "ms", 1500, "the slowest found")


def _limit(environment: Environment, source: str) -> float:
    """Milliseconds until an evaluation is stopped by its cost."""
    program = environment.compile(source)
    start = time.process_time()
    with suppress(CostLimitExceeded):
        program.evaluate(VALUES)
    return (time.process_time() - start) * 1000
