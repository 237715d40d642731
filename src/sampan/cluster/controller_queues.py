"""/debug/controllers: the work queues of the controllers in this process, and the keys that each controller reconciled
last."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from sampan.apiserver.request.call import Call, service_account_user
from sampan.apiserver.response.responses import ApiResponse, ValueResponse
from sampan.controllers.identities import NAMESPACE, account_of
from sampan.controllers.manager import ControllerManager
from sampan.machinery import errors
from sampan.machinery.control_loop.controller import ControllerRunner

PATH = "/debug/controllers"


def handler(manager: Callable[[], ControllerManager | None]) -> Callable[[Call], Awaitable[ApiResponse]]:
    """Return the handler of /debug/controllers. `manager` returns None while another process is the leader."""

    async def handle(call: Call) -> ApiResponse:
        if call.method != "GET":
            raise errors.generic(405)
        controllers = manager()
        runners = controllers.runners if controllers is not None else []
        return ValueResponse(
            {"isLeader": controllers is not None, "controllers": [_value(runner) for runner in runners]}
        )

    return handle


def _value(runner: ControllerRunner) -> dict[str, Any]:
    queue, stats, name = runner.queue, runner.stats, runner.controller.name
    return {
        "name": name,
        "user": service_account_user(NAMESPACE, account_of(name)).name,
        "depth": len(queue),
        "active": queue.active,
        "delayed": queue.delayed,
        "adds": queue.stats.adds,
        "retries": queue.stats.retries,
        "waitedSeconds": queue.stats.waits.total,
        "reconciles": stats.reconciles,
        "errors": stats.errors,
        "busySeconds": stats.work.total,
        "recent": [
            {"time": entry.time, "key": str(entry.key), "tookSeconds": entry.took_s, "error": entry.error[:300]}
            for entry in reversed(runner.recent)
        ],
    }
