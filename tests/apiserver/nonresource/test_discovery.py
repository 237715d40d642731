"""Discovery as the real server has it: the recordings are the judge."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from sampan.api.codec import protobuf
from sampan.api.schema.tree import Schema
from sampan.api.scheme import builtin_scheme
from tests.apiserver.in_process_server import Reply, asking, run

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
SCENARIOS = ("discovery-core", "discovery-groups", "discovery-resources", "discovery-aggregated")


@pytest.mark.parametrize("name", SCENARIOS)
def test_discovery_documents_are_those_of_a_real_server(shared_dir: Path, name: str) -> None:
    scenario = yaml.safe_load((shared_dir / f"golden/scenarios/{name}.yaml").read_text())
    recorded = json.loads((shared_dir / f"golden/recorded/{name}.json").read_text())
    assert len(recorded) == len(scenario["steps"])

    async def check() -> None:
        async with asking() as ask:
            for step, expected in zip(scenario["steps"], recorded, strict=True):
                method, _, path = step["request"].partition(" ")
                if path.startswith("/version") or path == "/":
                    continue
                reply = await ask.send(method, path, b"", accept=step.get("headers", {}).get("Accept", ""))
                assert (reply.code, _body(reply)) == (expected["status"], expected["body"]), step["name"]

    run(check())


def _body(reply: Reply) -> Any:
    try:
        document = reply.json
    except ValueError:
        return reply.body.decode()
    for address in document.get("serverAddressByClientCIDRs", ()):
        del address["serverAddress"]
    return document


def test_unchanged_aggregated_documents_get_304() -> None:
    async def check() -> None:
        async with asking() as ask:
            for path in ("/api", "/apis"):
                first = await ask.get(path, accept=AGGREGATED)
                assert first.content_type == AGGREGATED
                assert (first.headers["Vary"], first.headers["Cache-Control"]) == ("Accept", "public")
                tag = first.headers["ETag"]
                assert len(tag) == 130
                again = await ask.get(path, accept=AGGREGATED, if_none_match=tag)
                assert (again.code, again.body, again.headers["ETag"]) == (304, b"", tag)
                assert again.content_type == AGGREGATED

    run(check())


def test_resources_that_come_and_go_change_the_documents() -> None:
    async def check() -> None:
        scheme = builtin_scheme()
        configmaps = scheme.resource("", "v1", "configmaps")
        assert configmaps is not None
        lamps = dataclasses.replace(
            configmaps, group="example.com", plural="lamps", singular="lamp", kind="Lamp", schema=Schema(type="object")
        )
        async with asking(scheme) as ask:
            before = await ask.get("/apis", accept=AGGREGATED)
            assert (await ask.get("/apis/example.com")).body == b"404 page not found\n"
            scheme.add(lamps)
            after = await ask.get("/apis", accept=AGGREGATED)
            assert after.headers["ETag"] != before.headers["ETag"]
            assert (await ask.get("/apis/example.com")).json["preferredVersion"]["groupVersion"] == "example.com/v1"
            assert (await ask.get("/apis/example.com/v1")).json["resources"][0]["name"] == "lamps"
            for path in ("/apis/example.com/v9", "/apis/example.com/v1/chairs"):
                assert (await ask.get(path)).body == b"404 page not found\n"
            scheme.remove(lamps)
            assert (await ask.get("/apis", accept=AGGREGATED)).headers["ETag"] == before.headers["ETag"]

    run(check())


def test_address_of_the_server_and_protobuf() -> None:
    async def check() -> None:
        async with asking() as ask:
            versions = (await ask.get("/api")).json
            assert versions["serverAddressByClientCIDRs"] == [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]
            message = await ask.get("/apis/apps/v1", accept="application/vnd.kubernetes.protobuf")
            assert protobuf.decode(message.body) == (await ask.get("/apis/apps/v1")).json

    run(check())
