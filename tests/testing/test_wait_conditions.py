"""WaitCondition: the conditions that `wait_for` accepts."""

from typing import Any

import pytest

from sampan.testing.wait_conditions import WaitCondition

POD: dict[str, Any] = {
    "metadata": {"name": "web", "generation": 2},
    "status": {
        "phase": "Running",
        "observedGeneration": 2,
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Old", "status": "True", "observedGeneration": 1}],
        "containerStatuses": [{"name": "a", "ready": True}],
    },
}


@pytest.mark.parametrize(
    ("condition", "is_met"),
    [
        ("condition=Ready", True),
        ("condition=ready=true", True),
        ("condition=Ready=False", False),
        ("condition=Old", False),
        ("condition=Missing", False),
        ("Ready", True),
        ("create", True),
        ("delete", False),
        ("jsonpath={.status.phase}=Running", True),
        ("jsonpath={.status.phase}='Running'", True),
        ("jsonpath={.status.phase}=Failed", False),
        ("jsonpath={.status.podIP}", False),
        ("jsonpath={.status.containerStatuses[0].ready}=true", True),
        (lambda pod: pod["status"]["phase"] == "Running", True),
        (lambda pod: pod["status"]["podIP"], False),
        (lambda pod: pod["spec"]["containers"][0], False),
    ],
)
def test_evaluate(condition: Any, is_met: bool) -> None:
    assert WaitCondition(condition).evaluate(POD) is is_met


@pytest.mark.parametrize(("condition", "is_met"), [("delete", True), ("create", False), ("Ready", False)])
def test_evaluate_without_an_object(condition: str, is_met: bool) -> None:
    assert WaitCondition(condition).evaluate(None) is is_met


def test_missing_field_error_of_a_function_is_kept() -> None:
    check = WaitCondition(lambda pod: pod["status"]["podIP"])
    check.evaluate(POD)
    assert check.last_error == "KeyError: 'podIP'"


def test_errors_other_than_missing_fields_are_raised() -> None:
    def fail(_: dict[str, Any]) -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        WaitCondition(fail).evaluate(POD)


@pytest.mark.parametrize("text", ["phase=Running", "jsonpath=.status.phase=Running", "jsonpath={.status[}=1"])
def test_malformed_conditions_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="condition: "):
        WaitCondition(text)
