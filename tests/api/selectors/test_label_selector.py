import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sampan.api.selectors.label_selector import label_errors, selector_errors, selector_of
from sampan.api.selectors.labels import EVERYTHING, NOTHING, SelectorError
from sampan.api.types.meta_v1 import LabelSelector, LabelSelectorRequirement


def expression(key: str, operator: str, *values: str) -> LabelSelectorRequirement:
    return LabelSelectorRequirement(key=key, operator=operator, values=list(values))


def test_selector_of_labels_and_expressions() -> None:
    source = LabelSelector(
        matchLabels={"app": "web"},
        matchExpressions=[
            expression("tier", "In", "b", "a"),
            expression("old", "DoesNotExist"),
            expression("zone", "Exists"),
            expression("env", "NotIn", "dev"),
        ],
    )
    selector = selector_of(source)
    assert str(selector) == "app=web,env notin (dev),!old,tier in (a,b),zone"
    assert selector.matches({"app": "web", "tier": "a", "zone": "1"})
    assert not selector.matches({"app": "web", "tier": "a", "zone": "1", "old": ""})
    assert selector_of(source) is selector


def test_missing_selector_matches_nothing_and_empty_selector_everything() -> None:
    assert selector_of(None) is NOTHING
    assert selector_of(LabelSelector()) is EVERYTHING


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (LabelSelector(matchExpressions=[expression("a", "Like")]), '"Like" is not a valid label selector operator'),
        (
            LabelSelector(matchExpressions=[expression("a", "In")]),
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            LabelSelector(matchExpressions=[expression("a", "Exists", "x")]),
            'values: Invalid value: ["x"]: values set must be empty for exists and does not exist',
        ),
    ],
)
def test_invalid_selectors_are_rejected(source: LabelSelector, message: str) -> None:
    with pytest.raises(SelectorError) as raised:
        selector_of(source)
    assert str(raised.value) == message


def test_large_selectors_are_compiled_once_per_object_and_bounded() -> None:
    def large(name: str) -> LabelSelector:
        return LabelSelector(matchExpressions=[expression(name, "In", *map(str, range(1_000)))])

    source = large("n")
    assert selector_of(source) is selector_of(source)
    assert selector_of(source) == selector_of(large("n"))
    others = [large(f"n{number}") for number in range(60)]
    first = selector_of(others[0])
    assert [str(selector_of(other))[:3] for other in others[1:3]] == ["n1 ", "n2 "]
    for other in others:
        selector_of(other)
    assert selector_of(others[0]) is not first


def test_validation_errors() -> None:
    source = LabelSelector(
        matchLabels={"a": "b c"},
        matchExpressions=[
            expression("a", "In"),
            expression("a", "Exists", "x"),
            expression("a", "Like"),
            expression("", "In", "-"),
        ],
    )
    messages = [str(fault).split(" (e.g.")[0] for fault in selector_errors(source, "spec.selector")]
    alphanumeric = "'-', '_' or '.', and must start and end with an alphanumeric character"
    value = f"a valid label must be an empty string or consist of alphanumeric characters, {alphanumeric}"
    at = "spec.selector.matchExpressions"
    assert messages == [
        f'spec.selector.matchLabels: Invalid value: "b c": {value}',
        f"{at}[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        f"{at}[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        f'{at}[2].operator: Invalid value: "Like": not a valid selector operator',
        f'{at}[3].key: Invalid value: "": name part must be non-empty',
        f'{at}[3].key: Invalid value: "": name part must consist of alphanumeric characters, {alphanumeric}',
        f'{at}[3].values[0]: Invalid value: "-": {value}',
    ]
    assert len(selector_errors(source, "s", allow_bad_values=True)) == len(messages) - 1
    assert selector_errors(None, "spec.selector") == []
    assert label_errors({"a": "b"}, "metadata.labels") == []


def recorded_rejections(reference_dir: Path) -> Iterator[tuple[str, str, list[tuple[str, ...]]]]:
    """Yield fields, the selectors in them, and the causes with which the real server rejected them."""
    for path in (reference_dir / "recordings").glob("*.json"):
        for step in json.loads(path.read_text()):
            body = step["body"] if isinstance(step["body"], dict) else {}
            listed = (body.get("details") or {}).get("causes") or []
            causes = [tuple(str(cause.get(part, "")) for part in ("field", "reason", "message")) for cause in listed]
            for field, _, message in causes:
                if match := re.fullmatch(r"Invalid value: (\{.*\}): invalid label selector", message):
                    yield field, match[1], [cause for cause in causes if cause[0].startswith(f"{field}.match")]


def test_recorded_errors(reference_dir: Path) -> None:
    cases = list(recorded_rejections(reference_dir))
    assert len(cases) >= 2
    for field, source, causes in cases:
        faults = selector_errors(msgspec.json.decode(source, type=LabelSelector), field)
        assert [(fault.field, fault.type, fault.body) for fault in faults] == causes


def test_selector_of_decoded_json() -> None:
    source: Any = msgspec.json.decode(
        b'{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"c","operator":"Exists"}]}', type=LabelSelector
    )
    assert str(selector_of(source)) == "a=b,c"
