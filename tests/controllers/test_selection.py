"""The words of --controllers."""

import pytest

from sampan.controllers.manager import UnknownController, chosen, selected

KNOWN = {"a-controller": True, "b-controller": True, "c-controller": False}
ALIASES = {"b": "b-controller"}


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["*"], ["a-controller", "b-controller"]),
        ([], []),
        (["c-controller"], ["c-controller"]),
        (["b", "a-controller"], ["a-controller", "b-controller"]),
        (["*", "-a-controller"], ["b-controller"]),
        (["*", "-b"], ["a-controller"]),
        (["*", "c-controller"], ["a-controller", "b-controller", "c-controller"]),
        (["a-controller", "-a-controller"], ["a-controller"]),
        (["-a-controller", "a-controller", "*"], ["b-controller"]),
    ],
    ids=lambda value: ",".join(value) or "none",
)
def test_words(words: list[str], wanted: list[str]) -> None:
    assert chosen(words, KNOWN, ALIASES) == wanted


@pytest.mark.parametrize("word", ["d-controller", "-d-controller"])
def test_a_name_that_there_is_not_is_an_error_that_names_it(word: str) -> None:
    with pytest.raises(UnknownController, match='"d-controller" is not in the list of known controllers'):
        chosen(["*", word], KNOWN, ALIASES)


def test_the_table() -> None:
    golden = ["serviceaccount-controller", "namespace-controller", "root-ca-certificate-publisher-controller"]
    assert sorted(selected(golden)) == sorted(golden)
    assert set(golden) <= set(selected(["*"]))
    assert selected(["namespace"]) == ["namespace-controller"]
