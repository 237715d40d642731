"""The notes of what a reconcile decides and writes."""

import asyncio

from sampan.machinery.decisions import MAX_NOTES, collect_decisions, note_decision, note_write


def test_decisions_come_before_writes_with_their_numbers() -> None:
    with collect_decisions() as decisions:
        note_write("POST", "/api/v1/namespaces/a/pods")
        note_decision("3 pods", 1, "create 2")
        note_write("POST", "/api/v1/namespaces/a/pods")
        note_write("PUT", "/apis/apps/v1/namespaces/a/replicasets/web/status")
    assert decisions.text == (
        "need 3 pods, have 1: create 2; POST /api/v1/namespaces/a/pods (2 times), "
        "PUT /apis/apps/v1/namespaces/a/replicasets/web/status"
    )


def test_reconcile_that_does_nothing_has_no_text() -> None:
    note_decision("3 pods", 1, "create 2")
    with collect_decisions() as decisions:
        pass
    note_write("POST", "/api/v1/namespaces/a/pods")
    assert decisions.text == ""


def test_decision_without_writes_says_so() -> None:
    with collect_decisions() as decisions:
        note_decision("3 pods", 1, "create 2")
    assert decisions.text == "need 3 pods, have 1: create 2; no writes"


async def test_concurrent_reconciles_do_not_share_their_notes() -> None:
    async def reconcile(name: str) -> str:
        with collect_decisions() as decisions:
            await asyncio.sleep(0)
            await asyncio.gather(write(name), write(name))
        return decisions.text

    async def write(name: str) -> None:
        await asyncio.sleep(0)
        note_write("DELETE", name)

    first, second = await asyncio.gather(reconcile("a"), reconcile("b"))
    assert (first, second) == ("DELETE a (2 times)", "DELETE b (2 times)")


def test_number_of_notes_is_limited() -> None:
    with collect_decisions() as decisions:
        for number in range(3 * MAX_NOTES):
            note_write("DELETE", f"/api/v1/nodes/n{number}")
            note_decision(number, 0, "add")
    assert decisions.text.count("DELETE") == decisions.text.count("need") == MAX_NOTES
