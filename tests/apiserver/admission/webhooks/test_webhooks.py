from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from sampan.machinery.telemetry.flight_recorder import collect_parts, parse_parts
from tests.apiserver.admission.webhooks.webhook_cluster import CONFIGMAPS, PATHS, Webhooks, allow, deny, rule, webhooks
from tests.apiserver.cluster import NAMESPACE
from tests.apiserver.in_process_server import run
from tests.apiserver.webhook_server import json_patch


def test_a_validating_webhook_sees_the_whole_request(tmp_path: Path) -> None:
    async def work() -> None:
        async with webhooks(tmp_path, allow) as hooks:
            await hooks.register("ValidatingWebhookConfiguration", {"name": "a.example.com"})
            assert (await hooks.create("x", "?fieldManager=me", data={"k": "v"})).code == 201
            [(path, request)] = hooks.server.requests
            assert path == "/review"
            assert request["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
            assert request["resource"] == request["requestResource"]
            assert (request["name"], request["namespace"], request["operation"]) == ("x", "ns", "CREATE")
            assert request["userInfo"]["username"] == "admin"
            assert (request["object"]["data"], request["oldObject"], request["dryRun"]) == ({"k": "v"}, None, False)
            assert request["options"] == {
                "kind": "CreateOptions",
                "apiVersion": "meta.k8s.io/v1",
                "fieldManager": "me",
            }

    run(work())


def test_a_rejection_has_the_status_of_the_webhook(tmp_path: Path) -> None:
    async def work() -> None:
        async with webhooks(tmp_path, deny) as hooks:
            await hooks.register("ValidatingWebhookConfiguration", {"name": "a.example.com"})
            reply = await hooks.create()
            assert (reply.code, reply.json["reason"]) == (409, "Conflict")
            assert reply.json["message"] == 'admission webhook "a.example.com" denied the request: no luck'

    run(work())


def test_mutating_webhook_sees_the_changes_of_earlier_webhooks(tmp_path: Path) -> None:
    def respond(path: str, request: dict[str, Any]) -> dict[str, Any]:
        data = request["object"].get("data", {})
        return json_patch({"op": "add", "path": "/data", "value": {**data, path[1:]: "seen"}})

    async def work() -> None:
        async with webhooks(tmp_path, respond) as hooks:
            await hooks.register(
                "MutatingWebhookConfiguration",
                {"name": "a.example.com", "path": "/first"},
                {"name": "b.example.com", "path": "/second"},
            )
            reply = await hooks.create()
            assert reply.json["data"] == {"first": "seen", "second": "seen"}
            assert [path for path, _ in hooks.server.requests] == ["/first", "/second"]

    run(work())


def test_reinvocation_policy_if_needed_calls_webhook_again_after_later_change(tmp_path: Path) -> None:
    def respond(path: str, request: dict[str, Any]) -> dict[str, Any]:
        data = request["object"].get("data", {})
        if path == "/second" and "second" not in data:
            return json_patch({"op": "add", "path": "/data", "value": {**data, "second": "done"}})
        if path == "/first" and "second" in data:
            return json_patch({"op": "add", "path": "/data/first", "value": "saw the second"})
        return {"allowed": True}

    async def work() -> None:
        async with webhooks(tmp_path, respond) as hooks:
            await hooks.register(
                "MutatingWebhookConfiguration",
                {"name": "a.example.com", "path": "/first", "reinvocationPolicy": "IfNeeded"},
                {"name": "b.example.com", "path": "/second"},
            )
            reply = await hooks.create()
            assert reply.json["data"] == {"second": "done", "first": "saw the second"}
            assert [path for path, _ in hooks.server.requests] == ["/first", "/second", "/first"]

    run(work())


@pytest.mark.parametrize(
    ("hook", "is_called"),
    [
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, False),
        ({"rules": [rule("secrets")]}, False),
        ({"rules": [rule("*/*")]}, True),
        ({"rules": [rule("configmaps", scope="Cluster")]}, False),
        ({"rules": [rule("configmaps", operations=["UPDATE", "DELETE"])]}, False),
        ({"matchConditions": [{"name": "n", "expression": "object.metadata.name == 'a'"}]}, True),
        ({"matchConditions": [{"name": "n", "expression": "request.userInfo.username == 'joe'"}]}, False),
        ({"matchConditions": [{"name": "n", "expression": "'system:masters' in request.userInfo.groups"}]}, True),
        (
            {"matchConditions": [{"name": "n", "expression": "authorizer.requestResource.check('get').allowed()"}]},
            True,
        ),
    ],
    ids=str,
)
def test_webhook_is_called_only_for_matching_requests(tmp_path: Path, hook: dict[str, Any], is_called: bool) -> None:
    async def work() -> None:
        async with webhooks(tmp_path, deny) as hooks:
            await hooks.register("ValidatingWebhookConfiguration", {"name": "a.example.com", **hook})
            assert (await hooks.create()).code == (409 if is_called else 201)

    run(work())


def test_object_is_converted_to_the_equivalent_version_of_webhook_rules(tmp_path: Path) -> None:
    async def work() -> None:
        async with webhooks(tmp_path, allow) as hooks:
            rules = [rule("horizontalpodautoscalers", apiGroups=["autoscaling"], apiVersions=["v1"])]
            await hooks.register("ValidatingWebhookConfiguration", {"name": "a.example.com", "rules": rules})
            target = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
            spec = {"scaleTargetRef": target, "maxReplicas": 3}
            value = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}}
            path = "/apis/autoscaling/v2/namespaces/ns/horizontalpodautoscalers"
            await hooks.cluster.make(path, {**value, "spec": spec})
            [(_, request)] = hooks.server.requests
            assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v1", "v2")
            assert request["object"]["apiVersion"] == "autoscaling/v1"

    run(work())


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (web.Response(status=500, text="boom"), "failed to call webhook: an error on the server"),
        (web.Response(text="{}"), "received invalid webhook response: expected webhook response of"),
        (web.Response(text="[1]"), "received invalid webhook response"),
        (web.Response(text="not json"), "received invalid webhook response"),
        ({"allowed": True, "uid": "other"}, "expected response.uid="),
        (json_patch(), "validating webhook may not return response.patch"),
        (web.Response(status=302, headers={"Location": "https://example.com"}), "failed to call webhook"),
    ],
    ids=str,
)
def test_webhook_failure_rejects_request_unless_failure_policy_is_ignore(
    tmp_path: Path, response: Any, message: str
) -> None:
    def respond(path: str, request: dict[str, Any]) -> dict[str, Any] | web.Response:
        if isinstance(response, web.Response):
            return web.Response(status=response.status, body=response.body, headers=response.headers)
        return dict(response)

    async def work() -> None:
        async with webhooks(tmp_path, respond) as hooks:
            await hooks.register("ValidatingWebhookConfiguration", {"name": "a.example.com"})
            reply = await hooks.create()
            assert reply.code == 500
            assert reply.json["message"].startswith('Internal error occurred: failed calling webhook "a.example.com": ')
            assert message in reply.json["message"]
            path = f"{PATHS['ValidatingWebhookConfiguration']}/config"
            assert (await hooks.cluster.send("DELETE", path)).code == 200
            await hooks.register(
                "ValidatingWebhookConfiguration", {"name": "a.example.com", "failurePolicy": "Ignore"}, name="lenient"
            )
            assert (await hooks.create()).code == 201

    run(work())


def test_webhook_certificate_of_unknown_ca_is_rejected(tmp_path: Path) -> None:
    async def work() -> None:
        async with webhooks(tmp_path, allow) as hooks:
            hooks.server.bundle = b""
            await hooks.register("ValidatingWebhookConfiguration", {"name": "a.example.com"})
            assert "certificate signed by unknown authority" in (await hooks.create()).json["message"]

    run(work())


def test_webhook_certificate_for_another_name_is_rejected(tmp_path: Path) -> None:
    async def work() -> None:
        async with webhooks(tmp_path, allow, names=("other.example.com",)) as hooks:
            by_name = {"name": "a.example.com", "clientConfig": hooks.server.client_config(host="localhost")}
            await hooks.register("ValidatingWebhookConfiguration", by_name)
            reply = await hooks.create()
            assert reply.code == 500
            assert "failed to verify certificate" in reply.json["message"]
            assert "not valid for 'localhost'" in reply.json["message"]
            assert hooks.server.requests == []

    run(work())


def test_a_webhook_with_side_effects_is_not_called_in_a_dry_run(tmp_path: Path) -> None:
    async def work() -> None:
        async with webhooks(tmp_path, allow) as hooks:
            await hooks.register("ValidatingWebhookConfiguration", {"name": "a.example.com"})
            assert (await hooks.create(query="?dryRun=All")).code == 201
            assert hooks.server.requests[0][1]["dryRun"] is True
            await _set_side_effects(hooks)
            reply = await hooks.create(query="?dryRun=All")
            expected = 'admission webhook "a.example.com" does not support dry run'
            assert (reply.code, reply.json["message"]) == (400, expected)

    async def _set_side_effects(hooks: Webhooks) -> None:
        """Store a value of `sideEffects` that only older servers accepted."""
        store = hooks.cluster.registry.open_store_of(
            "admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"
        )
        key = store.key("", "config")
        entry, _ = await store.backend.get(key)
        assert entry is not None
        raw = entry.value.replace(b'"sideEffects":"None"', b'"sideEffects":"Some"')
        await store.backend.put(key, raw, expected=entry.revision)
        await store.cacher.get("", "config")

    run(work())


def test_no_webhook_is_called_for_webhook_configurations(tmp_path: Path) -> None:
    async def work() -> None:
        async with webhooks(tmp_path, deny) as hooks:
            await hooks.register("ValidatingWebhookConfiguration", {"name": "a.example.com", "rules": [rule("*")]})
            path = f"{PATHS['ValidatingWebhookConfiguration']}/config"
            assert (await hooks.cluster.send("DELETE", path)).code == 200

    run(work())


def test_warnings_of_a_webhook_reach_the_client(tmp_path: Path) -> None:
    def respond(path: str, request: dict[str, Any]) -> dict[str, Any]:
        return {"allowed": True, "warnings": ["take care"]}

    async def work() -> None:
        async with webhooks(tmp_path, respond) as hooks:
            await hooks.register("ValidatingWebhookConfiguration", {"name": "a.example.com"})
            assert await hooks.cluster.collect_warnings(CONFIGMAPS, {"metadata": {"name": "a"}}) == ["take care"]

    run(work())


def test_a_webhook_may_reject_deletions_and_sees_the_old_object(tmp_path: Path) -> None:
    def respond(path: str, request: dict[str, Any]) -> dict[str, Any]:
        return {"allowed": request["operation"] != "DELETE"}

    async def work() -> None:
        async with webhooks(tmp_path, respond) as hooks:
            await hooks.register("ValidatingWebhookConfiguration", {"name": "a.example.com"})
            await hooks.create(data={"k": "v"})
            reply = await hooks.cluster.send("DELETE", f"{CONFIGMAPS}/a")
            expected = 'admission webhook "a.example.com" denied the request without explanation'
            assert (reply.code, reply.json["message"]) == (400, expected)
            _, request = hooks.server.requests[-1]
            assert (request["object"], request["oldObject"]["data"]) == (None, {"k": "v"})

    run(work())


def test_webhook_patch_that_cannot_be_applied_is_an_internal_error(tmp_path: Path) -> None:
    def respond(path: str, request: dict[str, Any]) -> dict[str, Any]:
        return json_patch({"op": "replace", "path": "/nothing/here", "value": 1})

    async def work() -> None:
        async with webhooks(tmp_path, respond) as hooks:
            await hooks.register("MutatingWebhookConfiguration", {"name": "a.example.com"})
            assert (await hooks.create()).code == 500

    run(work())


def test_object_that_a_webhook_patch_makes_invalid_is_rejected(tmp_path: Path) -> None:
    def respond(path: str, request: dict[str, Any]) -> dict[str, Any]:
        return json_patch({"op": "add", "path": "/data", "value": {"not a key": "v"}})

    async def work() -> None:
        async with webhooks(tmp_path, respond) as hooks:
            await hooks.register("MutatingWebhookConfiguration", {"name": "a.example.com"})
            reply = await hooks.create(data={"key": "v"})
            assert (reply.code, reply.json["reason"]) == (422, "Invalid")
            assert [cause["field"] for cause in reply.json["details"]["causes"]] == ["data[not a key]"]
            assert (await hooks.cluster.send("GET", f"{CONFIGMAPS}/a")).code == 404

    run(work())


def test_connect_request_to_pod_attach_is_reviewed(tmp_path: Path) -> None:
    async def work() -> None:
        async with webhooks(tmp_path, deny) as hooks:
            await hooks.cluster.make(f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
            await hooks.cluster.create_pod()
            rules = [rule("pods/attach", operations=["CONNECT"])]
            await hooks.register("ValidatingWebhookConfiguration", {"name": "a.example.com", "rules": rules})
            reply = await hooks.cluster.send("POST", f"{NAMESPACE}/pods/a/attach?container=c&stdin=true")
            assert reply.code == 409
            [(_, request)] = hooks.server.requests
            assert (request["operation"], request["subResource"]) == ("CONNECT", "attach")
            assert request["kind"]["kind"] == "PodAttachOptions"
            assert request["object"]["stdin"] is True

    run(work())


def test_a_review_is_sent_again_if_the_server_has_closed_a_kept_connection(tmp_path: Path) -> None:
    """A server may close an idle connection just when the next review is sent."""

    async def work() -> None:
        async with webhooks(tmp_path, allow) as hooks:
            await hooks.register("ValidatingWebhookConfiguration", {"name": "a.example.com"})
            assert (await hooks.create("first")).code == 201
            hooks.server.hangs_up = True
            assert (await hooks.create("second")).code == 201
            assert [request["name"] for _, request in hooks.server.requests] == ["first", "second"]

    run(work())


def test_a_server_that_closes_new_connections_fails_the_request(tmp_path: Path) -> None:
    async def work() -> None:
        async with webhooks(tmp_path, allow) as hooks:
            await hooks.register("ValidatingWebhookConfiguration", {"name": "a.example.com"})
            hooks.server.hangs_up = True
            reply = await hooks.create()
            assert reply.code == 500
            url = f"https://127.0.0.1:{hooks.server.port}/review?timeout=10s"
            assert reply.json["message"].endswith(f'failed to call webhook: Post "{url}": EOF')

    run(work())


def test_webhook_call_fails_after_shutdown_of_webhook_clients(tmp_path: Path) -> None:
    async def work() -> None:
        async with webhooks(tmp_path, allow) as hooks:
            await hooks.register("ValidatingWebhookConfiguration", {"name": "a.example.com"})
            await hooks.create()
            await hooks.clients.close()
            reply = await hooks.create("b")
            assert reply.code == 500
            assert reply.json["message"].endswith("failed to call webhook: the server is shutting down")

    run(work())


def test_webhook_calls_are_recorded_as_request_parts_even_on_rejection(tmp_path: Path) -> None:
    def respond(path: str, request: dict[str, Any]) -> dict[str, Any]:
        return {"allowed": True} if path == "/good" else deny(path, request)

    async def work() -> None:
        async with webhooks(tmp_path, respond) as hooks:
            await hooks.register("MutatingWebhookConfiguration", {"name": "m.example.com", "path": "/good"})
            await hooks.register("ValidatingWebhookConfiguration", {"name": "v.example.com", "path": "/bad"})
            with collect_parts() as parts:
                assert (await hooks.create()).code == 409
        took = {name: took_s for name, _, took_s in parse_parts(str(parts))}
        assert [name for name in took if name.startswith("webhook ")] == [
            "webhook m.example.com",
            "webhook v.example.com",
        ]
        assert all(took_s > 0 for took_s in took.values())

    run(work())
