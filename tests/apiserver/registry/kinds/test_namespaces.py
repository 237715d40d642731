"""Creation and deletion of namespaces."""

from tests.apiserver.registry.shared_store_servers import ApiServer, run_with_server

NAMESPACES = "/api/v1/namespaces"
NAME_LABEL = "kubernetes.io/metadata.name"


def test_a_new_namespace_is_active_and_labelled_with_its_name() -> None:
    async def work(server: ApiServer) -> None:
        created = await server.make(NAMESPACES, {"metadata": {"name": "a"}, "status": {"phase": "Odd"}})
        assert created["metadata"]["labels"] == {NAME_LABEL: "a"}
        assert (created["spec"], created["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})

    run_with_server(work)


def test_a_generated_name_is_in_the_label() -> None:
    async def work(server: ApiServer) -> None:
        meta = (await server.make(NAMESPACES, {"metadata": {"generateName": "a-"}}))["metadata"]
        assert meta["labels"] == {NAME_LABEL: meta["name"]}

    run_with_server(work)


def test_namespace_is_removed_with_its_last_finalizer() -> None:
    async def work(server: ApiServer) -> None:
        await server.make(NAMESPACES, {"metadata": {"name": "a"}, "spec": {"finalizers": ["example.com/x"]}})
        _, marked = await server.send("DELETE", f"{NAMESPACES}/a")
        assert marked["status"]["phase"] == "Terminating"
        assert "deletionGracePeriodSeconds" not in marked["metadata"]
        _, again = await server.send("DELETE", f"{NAMESPACES}/a")
        assert again == marked
        for finalizers in (["example.com/x"], []):
            value = {"metadata": {"name": "a"}, "spec": {"finalizers": finalizers}}
            assert (await server.send("PUT", f"{NAMESPACES}/a/finalize", value))[0] == 200
        assert (await server.send("GET", f"{NAMESPACES}/a"))[0] == 404

    run_with_server(work)


def test_metadata_finalizers_delay_removal_of_namespace() -> None:
    async def work(server: ApiServer) -> None:
        await server.make(NAMESPACES, {"metadata": {"name": "a", "finalizers": ["example.com/x"]}})
        await server.send("DELETE", f"{NAMESPACES}/a")
        value = {"metadata": {"name": "a", "finalizers": ["example.com/x"]}, "spec": {"finalizers": []}}
        await server.send("PUT", f"{NAMESPACES}/a/finalize", value)
        assert (await server.send("GET", f"{NAMESPACES}/a"))[0] == 200
        await server.change(f"{NAMESPACES}/a", {"metadata": {"finalizers": None}})
        assert (await server.send("GET", f"{NAMESPACES}/a"))[0] == 404

    run_with_server(work)


def test_terminating_namespace_cannot_become_active() -> None:
    async def work(server: ApiServer) -> None:
        await server.make(NAMESPACES, {"metadata": {"name": "a"}})
        await server.send("DELETE", f"{NAMESPACES}/a")
        faults = await server.send_invalid("PATCH", f"{NAMESPACES}/a/status", {"status": {"phase": "Active"}})
        text = "may only be 'Terminating' if `deletionTimestamp` is not empty"
        assert faults == [f'status.Phase: Invalid value: "Active": {text}']

    run_with_server(work)


def test_orphan_propagation_policy_adds_orphan_finalizer() -> None:
    async def work(server: ApiServer) -> None:
        await server.make(NAMESPACES, {"metadata": {"name": "a"}})
        _, marked = await server.send("DELETE", f"{NAMESPACES}/a?propagationPolicy=Orphan")
        assert marked["metadata"]["finalizers"] == ["orphan"]

    run_with_server(work)
