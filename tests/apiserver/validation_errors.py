"""Validation errors of an API server as lists of messages."""

from typing import Any

from tests.apiserver.cluster import Cluster, run_in_cluster
from tests.apiserver.in_process_server import Reply


def messages_of(reply: Reply) -> list[str]:
    """Return the causes of a 422 response; none if the request succeeded."""
    if reply.code in (200, 201):
        return []
    assert reply.code == 422, reply.json
    return [f"{cause.get('field', '')}: {cause['message']}" for cause in reply.json["details"]["causes"]]


def errors_of_new(path: str, value: dict[str, Any]) -> list[str]:
    """Return the validation errors of the creation of an object."""
    errors: list[str] = []

    async def work(cluster: Cluster) -> None:
        errors.extend(messages_of(await cluster.send("POST", f"{path}?dryRun=All", value)))

    run_in_cluster(work)
    return errors


def errors_of_change(path: str, value: dict[str, Any], change: dict[str, Any], part: str = "") -> list[str]:
    """Create an object and return the validation errors of a merge patch of it."""
    errors: list[str] = []

    async def work(cluster: Cluster) -> None:
        created = await cluster.make(path, value)
        errors.extend(messages_of(await cluster.patch(f"{path}/{created['metadata']['name']}{part}", change)))

    run_in_cluster(work)
    return errors


def named_object(**content: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, **content}
