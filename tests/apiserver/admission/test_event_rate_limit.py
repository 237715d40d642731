from typing import Any

import pytest

from sampan.apiserver.admission.event_rate_limit import EventLimit, EventRateLimit, TokenBucket
from sampan.apiserver.admission.framework.admission_configuration import ConfigurationError
from sampan.apiserver.admission.framework.contract import register_validating
from sampan.host.clock import VirtualClock
from tests.apiserver.cluster import Cluster
from tests.apiserver.in_process_server import in_process_client, run


def test_token_bucket_refills_at_qps_up_to_burst() -> None:
    bucket = TokenBucket(qps=2, burst=3, tokens=3, at=0)
    assert [bucket.take(0) for _ in range(4)] == [True, True, True, False]
    assert [bucket.take(0.5) for _ in range(2)] == [True, False]
    assert [bucket.take(100) for _ in range(4)] == [True, True, True, False]


def test_least_recently_used_key_is_dropped_beyond_cache_size() -> None:
    limit = EventLimit(type="User", qps=1, burst=1, keys_kept=2)
    assert [limit.accepts(key, 0) for key in "aba"] == [True, True, False]
    assert [limit.accepts(key, 0) for key in "cab"] == [True, False, True], "c replaces b, which was used before a"


@pytest.mark.parametrize(
    ("limits", "fault"),
    [
        ([], "at least one limit"),
        ([{"type": "Odd", "qps": 1, "burst": 1}], r"limits\[0\].type"),
        ([{"type": "Server", "qps": 0, "burst": 1}], r"limits\[0\].qps"),
        ([{"type": "Server", "qps": 1}], r"limits\[0\].burst"),
    ],
)
def test_invalid_limits_are_rejected(limits: list[dict[str, Any]], fault: str) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        EventRateLimit({"limits": limits})


def test_event_above_namespace_limit_gets_429() -> None:
    async def main() -> None:
        plugin = EventRateLimit({"limits": [{"type": "Namespace", "qps": 1, "burst": 2}]})
        async with in_process_client(plugins=[register_validating(plugin)]) as client:
            cluster = Cluster(client)

            async def codes(namespace: str, count: int) -> list[int]:
                path, involved_object = f"/api/v1/namespaces/{namespace}/events", {"namespace": namespace}
                bodies = [{"metadata": {"generateName": "e"}, "involvedObject": involved_object} for _ in range(count)]
                return [(await cluster.send("POST", path, body)).code for body in bodies]

            assert await codes("a", 3) == [201, 201, 429]
            assert await codes("b", 1) == [201]
            assert isinstance(cluster.registry.clock, VirtualClock)
            await cluster.registry.clock.advance(1)
            assert await codes("a", 2) == [201, 429]

    run(main())
