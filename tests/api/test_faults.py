import pytest

from sampan.api.faults import Fault, FaultType, forbidden, invalid, join, quote, required, show


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (invalid("spec.x", "a b", "is bad"), 'spec.x: Invalid value: "a b": is bad'),
        (invalid("spec.x", 5, "is bad"), "spec.x: Invalid value: 5: is bad"),
        (invalid("spec.x", None, "is bad"), "spec.x: Invalid value: null: is bad"),
        (invalid("spec.x", ["a"], "is bad"), 'spec.x: Invalid value: ["a"]: is bad'),
        (required("spec.x"), "spec.x: Required value"),
        (required("spec.x", "say it"), "spec.x: Required value: say it"),
        (forbidden("spec.x", "not now"), "spec.x: Forbidden: not now"),
        (Fault(FaultType.DUPLICATE, "spec.x[1]", "a", ""), 'spec.x[1]: Duplicate value: "a"'),
        (
            Fault(FaultType.TOO_LONG, "spec.x", "aaaa", "may not be more than 3 bytes"),
            "spec.x: Too long: may not be more than 3 bytes",
        ),
    ],
)
def test_texts(fault: Fault, text: str) -> None:
    assert str(fault) == text


def test_reasons() -> None:
    assert FaultType.INVALID.value == "FieldValueInvalid"
    assert FaultType("FieldValueRequired") is FaultType.REQUIRED


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", '""'),
        ('a"b\\c', r'"a\"b\\c"'),
        ("\t\n\r\a\b\f\v", r'"\t\n\r\a\b\f\v"'),
        ("\0\x1f\x7f", r'"\x00\x1f\x7f"'),
        ("é€𝄞", '"é€𝄞"'),
        ("\u00a0\u2028\U000e0001", r'"\u00a0\u2028\U000e0001"'),
    ],
)
def test_quote(text: str, quoted: str) -> None:
    assert quote(text) == quoted


def test_several() -> None:
    one, two = invalid("a", 1, "x"), invalid("b", True, "y")
    assert join([one, one]) == "a: Invalid value: 1: x"
    assert join([one, two]) == "[a: Invalid value: 1: x, b: Invalid value: true: y]"
    assert show({"a": 1}) == '{"a":1}'
