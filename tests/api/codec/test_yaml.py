"""YAML, compared with sigs.k8s.io/yaml (the library of kubectl and the real server) and with recorded responses, and
with hostile texts."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.codec import yaml
from sampan.api.codec.yaml import YamlError
from sampan.api.codec.yaml.nodes import MAX_DEPTH
from tests.input_cost import check_cost

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "yaml_vectors.json").read_bytes())
"""Results of sigs.k8s.io/yaml v1.6.0 for random values and for texts written for these tests."""


def with_large_floats(value: Any) -> Any:
    """Return the value with integers beyond 64 bits as floats, as the server reads them from JSON."""
    if isinstance(value, dict):
        return {key: with_large_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_large_floats(item) for item in value]
    return float(value) if isinstance(value, int) and abs(value) >= 2**63 else value


def test_decoding_is_the_same_as_with_sigs_yaml() -> None:
    different = []
    for vector in VECTORS["decode"]:
        try:
            decoded = yaml.decode(vector["yaml"].encode())
        except YamlError as error:
            same = vector.get("error") == str(error)
        else:
            strict = yaml.strict_message(decoded.strict_errors) if decoded.strict_errors else None
            same = "json" in vector and with_large_floats(decoded.value) == with_large_floats(vector["json"])
            same = same and strict == vector.get("strict")
        if not same:
            different.append(vector)
    assert not different
    assert len(VECTORS["decode"]) > 400


def test_encoding_is_the_same_as_with_sigs_yaml() -> None:
    different = [vector for vector in VECTORS["encode"] if yaml.encode(vector["json"]).decode() != vector["yaml"]]
    assert not different
    assert len(VECTORS["encode"]) > 400


def test_strict_errors_have_the_recorded_messages(reference_dir: Path) -> None:
    """Bodies of the scenario have the errors of the real server's responses."""
    scenario = yaml.decode((reference_dir / "recordings/validation-yaml.yaml").read_bytes()).value
    recording = json.loads((reference_dir / "recordings/validation-yaml.json").read_bytes())
    checked = 0
    for step, recorded in zip(scenario["steps"], recording, strict=True):
        message = recorded["body"].get("message", "") if isinstance(recorded["body"], dict) else ""
        if "already set in map" in message or "already set in map" in (recorded["warning"] or ""):
            errors = yaml.decode(step["body"].encode()).strict_errors
            shown = message if message else (recorded["warning"] or "").replace('\\"', '"')
            assert (yaml.strict_message(errors) if message else errors[0]) in shown
            checked += 1
    assert checked >= 5


class TestDecode:
    @pytest.mark.parametrize(
        ("source", "value"),
        [
            ("y: 1", {"true": 1}),
            ("on: off", {"true": False}),
            ("1: a\n1.5: b\n0x10: c", {"1": "a", "1.5": "b", "16": "c"}),
            ("a: 0o17\nb: 017\nc: 1_000\nd: 08", {"a": 15, "b": 15, "c": 1000, "d": 8}),
            ("a: 1.0\nb: 1e3\nc: 1.5", {"a": 1, "b": 1000, "c": 1.5}),
            ("a: 2026-11-15T08:58:10Z", {"a": "2026-11-15T08:58:10Z"}),
            ("a: ~\nb:\nc: null", {"a": None, "b": None, "c": None}),
            ("a: 1\n---\nb: 2\n", {"a": 1}),
            ("a: 1\n---\nb: [", {"a": 1}),
            ('{"a": [1, "x", null, true]}', {"a": [1, "x", None, True]}),
            ("", None),
        ],
    )
    def test_values(self, source: str, value: Any) -> None:
        assert yaml.decode(source.encode()) == (value, [])

    def test_duplicate_keys_are_strict_errors(self) -> None:
        decoded = yaml.decode(b"a: 1\nb: {c: 1, c: 2}\na: 3\n")
        assert decoded.value == {"a": 3, "b": {"c": 2}}
        assert decoded.strict_errors == ['line 2: key "c" already set in map', 'line 3: key "a" already set in map']
        expected = 'yaml: unmarshal errors:\n  line 2: key "c" already set in map\n  line 3: key "a" already set in map'
        assert yaml.strict_message(decoded.strict_errors) == expected

    def test_values_of_aliases_are_not_shared(self) -> None:
        value = yaml.decode(b"a: &x {k: [1]}\nb: *x\n").value
        value["a"]["k"].append(2)
        assert value["b"] == {"k": [1]}


class TestHostile:
    def test_excessive_aliasing_is_rejected(self) -> None:
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
        with pytest.raises(YamlError, match=r"^yaml: document contains excessive aliasing$"):
            yaml.decode("\n".join(lines).encode())

    def test_excessive_merge_keys_are_rejected(self) -> None:
        lines = ["a0: &a0 {" + ", ".join(f"k{n}: v" for n in range(50)) + "}"]
        lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 20)}]}}" for n in range(1, 10)]
        with pytest.raises(YamlError, match="excessive aliasing"):
            yaml.decode("\n".join(lines).encode())

    def test_alias_that_contains_itself_is_rejected(self) -> None:
        with pytest.raises(YamlError, match="anchor 'x' value contains itself"):
            yaml.decode(b"a: &x [*x]")
        with pytest.raises(YamlError, match="contains itself"):
            yaml.decode(b"a: &x {<<: *x}")
        with pytest.raises(YamlError, match="contains itself"):
            yaml.decode(b"&x a: &y {? *y : 1}")

    @pytest.mark.parametrize(
        "source",
        [
            "[" * 100_000,
            "{a: " * 100_000,
            "- " * 100_000,
            "\n".join(" " * n + "a:" for n in range(MAX_DEPTH + 10)),
            "\n".join([f"a0: &a0 {'[' * 400}{']' * 400}", f"b: {'[' * 200}*a0{']' * 200}"]),
        ],
        ids=["lists", "maps", "dashes", "blocks", "through an alias"],
    )
    def test_nesting_depth_is_limited(self, source: str) -> None:
        with pytest.raises(YamlError, match="exceeded max depth"):
            yaml.decode(source.encode())

    def test_largest_allowed_depth_round_trips(self) -> None:
        value: Any = 1
        for level in range(MAX_DEPTH):
            value = [value] if level % 2 else {"k": value}
        assert yaml.decode(yaml.encode(value)).value == value
        with pytest.raises(YamlError, match="exceeded max depth"):
            yaml.encode([value])

    @pytest.mark.parametrize("source", [b"a: \xff", b"a: \x00", b"\xef\xbb", b"\xc3"])
    def test_invalid_utf8_and_control_characters_are_rejected(self, source: bytes) -> None:
        with pytest.raises(YamlError, match=r"^yaml: "):
            yaml.decode(source)

    def test_cost_of_long_numbers_is_bounded(self) -> None:
        for text in ("9" * 99_000, "0x" + "f" * 99_000, "1_" * 49_500, "0b" + "1" * 99_000, "1" * 5000 + ":1"):
            check_cost(partial(yaml.decode, b"a: " + text.encode()))

    @given(st.binary(max_size=60))
    def test_random_bytes_are_decoded_or_rejected(self, source: bytes) -> None:
        check_decoded_or_rejected(source)

    @given(st.text(alphabet="ab1:-?[]{},#&*!|>'\"%@`~<=. \n\t\\é😀", max_size=40))
    def test_random_indicators_are_decoded_or_rejected(self, source: str) -> None:
        check_decoded_or_rejected(source.encode())


def check_decoded_or_rejected(source: bytes) -> None:
    try:
        decoded = yaml.decode(source)
    except YamlError:
        return
    json.dumps(decoded.value, allow_nan=False)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    [
        "yes",
        "n",
        "null",
        "~",
        "1",
        "1.5",
        "1e3",
        "0x1",
        "12:30",
        "2001-01-01",
        "a: b",
        "- x",
        " x",
        "x ",
        "a\nb\n",
        "\n",
    ]
)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(TEXT.filter(lambda key: key != "<<"), inner, max_size=4)
    ),
    max_leaves=20,
)


# The key << is written without quotes and read as a merge, by the real library too.
@given(VALUES)
def test_values_round_trip(value: Any) -> None:
    assert yaml.decode(yaml.encode(value)) == (value, [])


@given(st.lists(st.text("abc'x:#-", min_size=1, max_size=12), min_size=1, max_size=60))
def test_long_lines_are_folded_without_loss(words: list[str]) -> None:
    written = yaml.encode({"message": " ".join(words)}).decode()
    assert yaml.decode(written.encode()).value == {"message": " ".join(words)}
    longest = 2 * max(map(len, words))  # quotes are doubled
    assert all(len(line) <= 80 + longest + 1 for line in written.splitlines())


def test_only_json_values_can_be_encoded() -> None:
    with pytest.raises(TypeError, match="set is not a JSON value"):
        yaml.encode({"a": {1}})
