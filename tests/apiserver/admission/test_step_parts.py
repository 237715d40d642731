"""Admission as parts of a step of the flight recorder: the plug-ins of a new pod, and every webhook."""

from pathlib import Path
from typing import Any

from sampan.machinery.step_parts import collect_parts, parse_parts
from tests.apiserver.admission.webhooks.test_webhooks import deny, webhooks
from tests.apiserver.in_process_server import run


def test_calls_of_webhooks_are_parts_even_if_they_reject(tmp_path: Path) -> None:
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
