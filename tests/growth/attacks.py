"""The table of all attacks, with those on the dashboard, whose pages follow the objects of a product."""

from __future__ import annotations

from dataclasses import dataclass

from tests.growth.attack import Subscriptions
from tests.growth.more_products import MORE_PRODUCTS
from tests.growth.products import (
    APPS,
    CORE,
    PRODUCTS,
    Product,
    containers,
    flags,
    pods,
    service,
    template,
    write,
)

_CONFIG_MAPS = f"{CORE}/configmaps"


@dataclass(frozen=True, slots=True)
class GrowingAttack:
    steps: Product
    subscriptions: Subscriptions = ()


DASHBOARD_ATTACKS = {
    "a page that follows a list of large objects many times": GrowingAttack(
        lambda n: [
            [
                write(_CONFIG_MAPS, f"m{number}", metadata={"annotations": flags(20 * n)}, data=flags(20 * n))
                for number in range(n)
            ]
        ],
        [{"path": _CONFIG_MAPS}] * 30,
    ),
    "a page that follows tables with selectors": GrowingAttack(
        lambda n: [
            [write(_CONFIG_MAPS, f"m{number}", metadata={"labels": flags(2 * n)}) for number in range(5 * n)],
        ],
        [{"path": _CONFIG_MAPS, "table": True, "labelSelector": ",".join(flags(200))}] * 30,
    ),
    "overviews of many services, pods and containers": GrowingAttack(
        lambda n: [
            [service(f"s{number}", [{"port": 80}], selector={"app": "a"}) for number in range(n)],
            pods(n, labels={"app": "a", **flags(n)}, containers=containers(n // 2), initContainers=[]),
        ],
        [{"kind": "overview"}] * 6,
    ),
    "overviews of many failing pods and workloads": GrowingAttack(
        lambda n: [
            [
                write(
                    f"{APPS}/deployments",
                    f"d{number}",
                    spec={"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template({"a": "b"})},
                )
                for number in range(n // 2)
            ],
            pods(
                n,
                restartPolicy="Never",
                containers=containers(20),
                annotations={"hollow.sampan.dev/exit-code": "1"},
            ),
        ],
        [{"kind": "overview", "namespace": "team"}] * 6,
    ),
}
ATTACKS = {name: GrowingAttack(steps) for name, steps in (PRODUCTS | MORE_PRODUCTS).items()} | DASHBOARD_ATTACKS
