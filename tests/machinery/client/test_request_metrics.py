"""Metrics of the requests that a client sends."""

import pytest

from sampan.machinery import errors
from sampan.machinery.client.request_metrics import ClientRequestMetrics
from sampan.machinery.client.transport import ConnectionFailed
from sampan.machinery.telemetry.metrics import Metrics


def test_requests_are_counted_by_code_and_method() -> None:
    metrics, requests = Metrics(), ClientRequestMetrics(host="server:6443")
    requests.export(metrics)
    with requests.measure("POST") as measurement:
        measurement.code = 201
    with pytest.raises(errors.NotFound), requests.measure("GET"):
        raise errors.not_found("pods", "p")
    with pytest.raises(ConnectionFailed), requests.measure("GET"):
        raise ConnectionFailed("no route", may_have_happened=False)
    lines = metrics.text().splitlines()
    assert [line for line in lines if line.startswith("rest_client_requests_total")] == [
        'rest_client_requests_total{code="201",method="POST",host="server:6443"} 1',
        'rest_client_requests_total{code="404",method="GET",host="server:6443"} 1',
        'rest_client_requests_total{code="<error>",method="GET",host="server:6443"} 1',
    ]
    assert 'rest_client_request_duration_seconds_count{verb="GET",host="server:6443"} 2' in lines
