"""What nodes of a fleet may write: what is theirs, as the Node authorizer and NodeRestriction say."""

import pytest

from sampan.api.types.core_v1 import Node, Pod
from sampan.machinery import errors
from sampan.testing import builders
from tests.controllers.cluster import cluster


async def test_a_node_writes_only_what_is_its_own() -> None:
    async with cluster() as c, c.running("serviceaccount-controller"), c.nodes("node-0", "node-1"):
        await c.client.of(Pod).create(builders.pod("p", node="node-0", namespace="default"))
        await c.clock.settle()
        other = c.node_client("node-1")
        with pytest.raises(errors.Forbidden, match="set to itself"):
            await other.of(Pod).patch("p", {"status": {"phase": "Failed"}}, "default", subresource="status")
        with pytest.raises(errors.Forbidden, match="not allowed to modify node"):
            await other.of(Node).patch("node-0", {"metadata": {"labels": {"a": "b"}}})
        with pytest.raises(errors.Forbidden):
            await other.of(Pod).list()
