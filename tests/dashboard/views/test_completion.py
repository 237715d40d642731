"""The context of the cursor in incomplete YAML."""

import pytest

from sampan.dashboard.views.completion import cursor_context

HEAD = "apiVersion: v1\nkind: Pod\n"


@pytest.mark.parametrize(
    ("text", "path", "key", "is_value", "typed"),
    [
        ("spe^", (), "spe", False, "spe"),
        ("spec:\n  ^", ("spec",), "", False, ""),
        ("spec:\n  containers:\n  - na^", ("spec", "containers", "[]"), "na", False, "na"),
        ("spec:\n  containers:\n  - name: a\n    im^", ("spec", "containers", "[]"), "im", False, "im"),
        ("spec:\n  containers:\n    - name: a\n    - im^", ("spec", "containers", "[]"), "im", False, "im"),
        ("spec:\n  containers:\n  - name: a\n  rest^", ("spec",), "rest", False, "rest"),
        ("spec:\n  restartPolicy: Al^", ("spec",), "restartPolicy", True, "Al"),
        ("spec:\n  hostNetw^ork: true", ("spec",), "hostNetwork", False, "hostNetw"),
        ("metadata:\n  labels:\n    a: b\nspec:\n  # note\n\n  x^", ("spec",), "x", False, "x"),
    ],
)
def test_the_path_follows_from_the_indentation(
    text: str, path: tuple[str, ...], key: str, is_value: bool, typed: str
) -> None:
    offset = len(HEAD) + text.index("^")
    context = cursor_context(HEAD + text.replace("^", ""), offset)
    assert context is not None
    assert (context.path, context.key, context.is_value, context.typed) == (path, key, is_value, typed)
    assert (context.api_version, context.kind) == ("v1", "Pod")


@pytest.mark.parametrize("text", ["# a comment^", "data:\n  script: |\n    if ^"])
def test_comments_and_block_scalars_have_no_completion(text: str) -> None:
    assert cursor_context(HEAD + text.replace("^", ""), len(HEAD) + text.index("^")) is None


def test_each_document_has_its_own_kind() -> None:
    text = f"{HEAD}---\napiVersion: apps/v1\nkind: Deployment\nspec:\n  "
    context = cursor_context(text, len(text))
    assert context is not None
    assert (context.api_version, context.kind, context.path) == ("apps/v1", "Deployment", ("spec",))
