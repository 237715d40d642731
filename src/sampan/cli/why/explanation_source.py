"""Get an explanation from the scheduler: in the process of the API server, on its own port, or else simulated here.

If no scheduler is reachable, one is created here that reads the cluster through the API and binds nothing. It has the
default profile, and does not know earlier decisions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import click
import msgspec

from sampan.cli.kubectl.session import ServerError, Session
from sampan.machinery.client.access import Access

WHY = "/debug/scheduler/why"


def fetch_explanation(session: Session, pod: Mapping[str, Any], *, is_there: bool, scheduler: str, limit: int) -> Any:
    """Return the explanation for an existing pod, or for one that does not exist yet."""
    server = _at(session, scheduler) if scheduler else session
    try:
        return _ask_scheduler(server, pod, is_there, limit)
    except ServerError as error:
        if scheduler or error.error.code not in (403, 404, 503):
            raise
    click.echo("(no scheduler is reachable; simulated from the objects of the API server)", err=True)
    return _simulate(session.access, pod, limit)


def _ask_scheduler(server: Session, pod: Mapping[str, Any], is_there: bool, limit: int) -> Any:
    query = {"limit": str(limit)}
    if not is_there:
        return server.send("POST", WHY, query, body=pod)
    metadata = pod["metadata"]
    return server.get(WHY, query | {"namespace": metadata["namespace"], "name": metadata["name"]})


def _at(session: Session, url: str) -> Session:
    """Return a session with the port of a scheduler as the same user. The scheduler has the token reviewed by the API
    server; its self-signed certificate is not verified."""
    access = Access(server=url, is_insecure=True, token=session.access.token, token_file=session.access.token_file)
    scheduler_session = Session(access, session.namespace)
    click.get_current_context().call_on_close(scheduler_session.close)
    return scheduler_session


def _simulate(access: Access, pod: Mapping[str, Any], limit: int) -> Any:
    return asyncio.run(_simulate_async(access, pod, limit))


async def _simulate_async(access: Access, value: Mapping[str, Any], limit: int) -> Any:
    from sampan.api.codec import json
    from sampan.api.types.core_v1 import Pod
    from sampan.machinery.client import Client
    from sampan.machinery.client.http import HttpTransport
    from sampan.machinery.clock import RealClock
    from sampan.scheduler.explain.explain import explain
    from sampan.scheduler.scheduler import make_scheduler

    clock = RealClock()
    async with HttpTransport(access) as transport:
        scheduler = make_scheduler(client=Client(transport=transport, clock=clock, component="sampan-why"), clock=clock)
        async with scheduler.synced():
            explanation = await explain(scheduler, json.from_value(value, Pod), now=clock.now(), most_nodes=limit)
    return msgspec.json.decode(msgspec.json.encode(explanation))
