"""Names, labels and counts of the metrics of admission webhooks and policies."""

from pathlib import Path
from typing import Any

from aiohttp import web

from sampan.apiserver.admission.framework.metrics import error_type_of
from sampan.machinery.cel.errors import CompileError, CostLimitExceeded, EvaluationError
from sampan.machinery.telemetry.metrics import Metrics
from tests.apiserver.admission.policies.policy_cluster import policies
from tests.apiserver.admission.webhooks.webhook_cluster import deny, webhooks
from tests.apiserver.in_process_server import run

VALIDATING, MUTATING = "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"


def _samples(metrics: Metrics) -> set[str]:
    """Return the counters, and the counts of histograms."""
    return {
        line
        for line in metrics.text().splitlines()
        if not line.startswith("#") and "_bucket{" not in line and "_sum{" not in line
    }


def test_webhook_calls_and_rejections_are_counted(tmp_path: Path) -> None:
    def respond(path: str, request: dict[str, Any]) -> dict[str, Any]:
        return {"allowed": True} if path == "/good" else deny(path, request)

    async def work() -> None:
        metrics = Metrics()
        async with webhooks(tmp_path, respond, metrics=metrics) as hooks:
            await hooks.register(MUTATING, {"name": "m.example.com", "path": "/good"})
            await hooks.register(VALIDATING, {"name": "v.example.com", "path": "/bad"})
            assert (await hooks.create()).code == 409
        start = "apiserver_admission_webhook_"
        assert _samples(metrics) == {
            f'{start}request_total{{name="m.example.com",type="admit",operation="CREATE",code="200",'
            'rejected="false"} 1',
            f'{start}request_total{{name="v.example.com",type="validating",operation="CREATE",code="409",'
            'rejected="true"} 1',
            f'{start}rejection_count{{name="v.example.com",type="validating",operation="CREATE",error_type="no_error",'
            'rejection_code="409"} 1',
            f'{start}admission_duration_seconds_count{{name="m.example.com",type="admit",operation="CREATE",'
            'rejected="false"} 1',
            f'{start}admission_duration_seconds_count{{name="v.example.com",type="validating",operation="CREATE",'
            'rejected="true"} 1',
        }

    run(work())


def test_webhook_failures_are_counted(tmp_path: Path) -> None:
    def respond(path: str, request: dict[str, Any]) -> web.Response:
        return web.Response(status=500)

    async def work() -> None:
        metrics = Metrics()
        async with webhooks(tmp_path, respond, metrics=metrics) as hooks:
            await hooks.register(MUTATING, {"name": "open.example.com", "failurePolicy": "Ignore"})
            await hooks.register(VALIDATING, {"name": "closed.example.com"})
            assert (await hooks.create()).code == 500
        samples = _samples(metrics)
        assert 'apiserver_admission_webhook_fail_open_count{name="open.example.com",type="admit"} 1' in samples
        assert (
            'apiserver_admission_webhook_rejection_count{name="closed.example.com",type="validating",operation="CREATE",'
            'error_type="calling_webhook_error",rejection_code="503"} 1'
        ) in samples

    run(work())


def test_match_condition_exclusions_and_errors_are_counted(tmp_path: Path) -> None:
    async def work() -> None:
        metrics = Metrics()
        async with webhooks(tmp_path, deny, metrics=metrics) as hooks:
            conditions = {
                "excluded.example.com": [{"name": "never", "expression": "object.metadata.name == 'b'"}],
                "broken.example.com": [{"name": "broken", "expression": "object.nothing == 1"}],
            }
            for name, rows in conditions.items():
                hook = {"name": name, "matchConditions": rows, "failurePolicy": "Ignore"}
                await hooks.register(VALIDATING, hook, name=name)
            assert (await hooks.create()).code == 201
        samples, rest = _samples(metrics), 'kind="webhook",type="validating",operation="CREATE"} 1'
        start = "apiserver_admission_match_condition_"
        assert samples == {
            f'{start}exclusions_total{{name="excluded.example.com",{rest}',
            f'{start}evaluation_errors_total{{name="broken.example.com",{rest}',
            f'{start}evaluation_seconds_count{{name="excluded.example.com",{rest}',
            f'{start}evaluation_seconds_count{{name="broken.example.com",{rest}',
        }

    run(work())


def test_policy_validations_are_counted_per_enforcement_action() -> None:
    async def work() -> None:
        metrics = Metrics()
        async with policies(metrics) as cluster:
            broken = {"expression": "object.nothing == 1"}
            await cluster.validate({"expression": "false"}, broken, actions=("Warn", "Audit"))
            assert (await cluster.create()).code == 201
        start, names = "apiserver_validating_admission_policy_check_", 'policy="p",policy_binding="b"'
        assert _samples(metrics) == {
            f'{start}{metric}{{{names},error_type="{error}",enforcement_action="{action}"}} 1'
            for metric in ("total", "duration_seconds_count")
            for error in ("no_error", "invalid_error")
            for action in ("warn", "audit")
        }

    run(work())


def test_ignored_policy_errors_and_policy_mutations_are_counted() -> None:
    async def work() -> None:
        metrics = Metrics()
        async with policies(metrics) as cluster:
            await cluster.validate({"expression": "object.nothing == 1"}, failurePolicy="Ignore")
            patch = {"expression": "Object{data: {'added': 'yes'}}"}
            mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": patch}
            await cluster.add("MutatingAdmissionPolicy", {"mutations": [mutation], "reinvocationPolicy": "Never"})
            assert (await cluster.create()).json["data"] == {"added": "yes"}
        names = 'policy="p",policy_binding="b"'
        samples = _samples(metrics)
        assert (
            f'apiserver_validating_admission_policy_check_total{{{names},error_type="invalid_error",'
            'enforcement_action="allow"} 1'
        ) in samples
        assert f'apiserver_mutating_admission_policy_check_total{{{names},error_type="no_error"}} 1' in samples

    run(work())


def test_error_types() -> None:
    causes = (None, CompileError(""), CostLimitExceeded(), EvaluationError(""), ValueError())
    assert [error_type_of(cause) for cause in causes] == [
        "no_error",
        "compile_error",
        "out_of_budget",
        "invalid_error",
        "invalid_error",
    ]
