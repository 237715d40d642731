"""Metrics of requests."""

import asyncio

import pytest

from sampan.api.scheme import builtin_scheme
from sampan.apiserver.flowcontrol.fairness import Fairness
from sampan.apiserver.http.connection_limits import HttpLimits
from sampan.apiserver.http.http_request import FlowSeat, InFlightLimiter
from sampan.apiserver.metrics import RequestMetrics
from sampan.apiserver.request.call import Call, Query
from sampan.machinery import errors
from sampan.machinery.telemetry.metrics import Metrics

_LABELS = 'group="",version="v1",resource="pods",subresource="",scope="resource",component="apiserver"'
_SLI = "apiserver_request_sli_duration_seconds"


def _make_call(query: str = "") -> Call:
    route = builtin_scheme().resolve("/api/v1/namespaces/n/pods/p")
    assert route is not None
    call = Call(method="GET", path="/api/v1/namespaces/n/pods/p", query=Query(query), headers={}, verb="get")
    call.resource, call.namespace, call.name = route.resource, "n", "p"
    return call


def _samples(metrics: Metrics, start: str) -> dict[str, float]:
    lines = [line for line in metrics.text().splitlines() if line.startswith(start)]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_service_level_duration_leaves_out_queues_and_webhooks() -> None:
    metrics = Metrics()
    requests = RequestMetrics(metrics=metrics)
    quick, delayed = _make_call("dryRun=All"), _make_call()
    delayed.exclude_time(2.0)
    delayed.exclude_time(0.5)
    requests.record_request(quick, 200, 0.01, 100)
    requests.record_request(delayed, 200, 2.8, 100)
    samples = _samples(metrics, _SLI)
    assert samples[f'{_SLI}_bucket{{verb="GET",{_LABELS},le="0.05"}}'] == 1
    assert samples[f'{_SLI}_bucket{{verb="GET",{_LABELS},le="0.2"}}'] == 1
    assert samples[f'{_SLI}_bucket{{verb="GET",{_LABELS},le="0.4"}}'] == 2
    assert samples[f'{_SLI}_bucket{{verb="GET",{_LABELS},le="+Inf"}}'] == 2
    assert samples[f'{_SLI}_count{{verb="GET",{_LABELS}}}'] == 2
    assert samples[f'{_SLI}_sum{{verb="GET",{_LABELS}}}'] == pytest.approx(0.31)
    assert not any('le="0.005"' in name for name in samples)
    durations = _samples(metrics, "apiserver_request_duration_seconds_sum")
    assert sum(durations.values()) == pytest.approx(2.81)


def test_requests_that_exceed_the_limit_are_terminations() -> None:
    metrics = Metrics()
    requests = RequestMetrics(metrics=metrics)
    limiter = InFlightLimiter(limits=HttpLimits(reading=1, writing=1), metrics=requests)
    assert FlowSeat(limiter).enter(_make_call()) is None
    with pytest.raises(errors.TooManyRequests):
        FlowSeat(limiter).enter(_make_call())
    expected = {f'apiserver_request_terminations_total{{verb="GET",{_LABELS},code="429"}}': 1}
    assert _samples(metrics, "apiserver_request_terminations_total") == expected


async def test_time_in_the_queue_of_a_priority_level_is_excluded() -> None:
    requests = RequestMetrics(metrics=Metrics())
    limiter = InFlightLimiter(limits=HttpLimits(), metrics=requests, fairness=Fairness(seats=1))
    call, seat = _make_call(), asyncio.get_running_loop().create_future()
    seat.set_result(None)
    await FlowSeat(limiter)._await_seat(call, None, seat)  # type: ignore[arg-type]
    assert call.excluded_s > 0
