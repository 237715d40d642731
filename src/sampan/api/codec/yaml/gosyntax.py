"""Values as Go's `%#v` prints them, which is how kube-apiserver's YAML errors show keys."""

from typing import Any

from sampan.api.codec.yaml.scalars import float_text


def go_syntax(value: Any, *, is_inner: bool = True) -> str:
    """Return the value in Go syntax. `is_inner` is for a value in an interface, where nil has a type."""
    if value is None:
        return "interface {}(nil)" if is_inner else "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, dict):
        pairs = ", ".join(f"{go_syntax(key)}:{go_syntax(item)}" for key, item in value.items())
        return f"map[interface {{}}]interface {{}}{{{pairs}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(go_syntax, value))}}}"
    return str(value)


def _quoted(text: str) -> str:
    shown = (
        text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    )
    return '"' + "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in shown) + '"'
