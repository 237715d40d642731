"""Go's fmt.Sprintf, Sprint and Sprintln for the values of a template."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sampan.api.go_compat.gotext import quote
from sampan.kubectl.printers.go_template.values import INVALID, Byte, default_text, float_text, type_name, unwrap

_MAX_WIDTH = 1_000_000
"""The largest width or precision that Go takes from an argument. In a format, it is the largest number to which Go
appends another digit."""
_MAX_WIDTH_DIGITS = len(str(_MAX_WIDTH)) + 1
_DIRECTIVE = re.compile(
    r"%(?P<flags>[-+# 0]*)(?:\[(?P<width_index>\d+)\])?(?P<width>\*|\d+)?"
    r"(?P<point>\.(?:\[(?P<precision_index>\d+)\])?(?P<precision>\*|\d+)?)?(?:\[(?P<index>\d+)\])?(?P<verb>.)?",
    re.DOTALL,
)


def sprint(values: Sequence[Any]) -> str:
    """Return the default texts of values, with a space between two adjacent values if neither is a string."""
    parts: list[str] = []
    for index, value in enumerate(values):
        if index and not isinstance(value, str) and not isinstance(values[index - 1], str):
            parts.append(" ")
        parts.append(default_text(value))
    return "".join(parts)


def sprintln(values: Sequence[Any]) -> str:
    return " ".join(default_text(value) for value in values) + "\n"


def sprintf(text: str, values: Sequence[Any]) -> str:
    return _Format(values).render(text)


class _Format:
    def __init__(self, values: Sequence[Any]) -> None:
        self._values = values
        self._at = 0
        self._is_reordered = False

    def render(self, text: str) -> str:
        parts, position = [], 0
        while (start := text.find("%", position)) >= 0:
            parts.append(text[position:start])
            match = _DIRECTIVE.match(text, start)
            assert match is not None
            parts.append(self._directive(match))
            position = len(text) if _is_too_large(match["width"]) or _is_too_large(match["precision"]) else match.end()
        parts.append(text[position:])
        if not self._is_reordered and self._at < len(self._values):
            extra_arguments = [
                "<nil>" if unwrap(value) is INVALID else f"{type_name(value)}={default_text(value)}"
                for value in self._values[self._at :]
            ]
            parts.append(f"%!(EXTRA {', '.join(extra_arguments)})")
        return "".join(parts)

    def _directive(self, match: re.Match[str]) -> str:
        flags, verb, errors = match["flags"], match["verb"], ""
        if match["width_index"]:
            self._jump(match["width_index"])
        if _is_too_large(match["width"]):
            return "%!(NOVERB)"
        width, error = self._number(match["width"], "BADWIDTH")
        errors += error
        if width < 0:
            flags, width = flags + "-", -width
        precision = -1
        if match["point"] is not None:
            if match["precision_index"]:
                self._jump(match["precision_index"])
            if _is_too_large(match["precision"]):
                return errors + "%!(NOVERB)"
            precision, error = self._number(match["precision"] or "0", "BADPREC")
            errors += error
            precision = -1 if error or precision < 0 else precision
        if match["index"]:
            self._jump(match["index"])
        if verb is None:
            return errors + "%!(NOVERB)"
        if verb == "%":
            return errors + "%"
        if not 0 <= self._at < len(self._values):
            return errors + (f"%!{verb}(BADINDEX)" if self._is_reordered else f"%!{verb}(MISSING)")
        value = self._values[self._at]
        self._at += 1
        return errors + _Directive(flags=flags, width=width, precision=precision, verb=verb).text(value)

    def _jump(self, index: str) -> None:
        self._at = int(index) - 1 if len(index) < 7 else -1
        self._is_reordered = True

    def _number(self, text: str | None, error: str) -> tuple[int, str]:
        if text is None:
            return 0, ""
        if text != "*":
            return int(text.lstrip("0") or "0"), ""
        value = self._values[self._at] if 0 <= self._at < len(self._values) else None
        self._at += 1
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MAX_WIDTH:
            return int(value), ""
        return 0, f"%!({error})"


def _is_too_large(number: str | None) -> bool:
    """Whether a width or precision exceeds Go's limit. Go then parses the rest of the format as part of the number."""
    digits = (number or "").lstrip("0")
    return len(digits) > _MAX_WIDTH_DIGITS or (len(digits) == _MAX_WIDTH_DIGITS and int(digits[:-1]) > _MAX_WIDTH)


class _Directive:
    """One verb with its flags, applied to a value and to the elements of lists and maps."""

    def __init__(self, *, flags: str, width: int, precision: int, verb: str) -> None:
        self._flags = flags.replace("+", "") if verb == "v" else flags
        self._width = width
        self._precision = precision
        self._verb = verb

    def text(self, value: Any) -> str:
        value, verb = unwrap(value), self._verb
        if verb == "T":
            return self._pad(type_name(value))
        if value is INVALID:
            return self._pad("<nil>") if verb == "v" else f"%!{verb}(<nil>)"
        return self._format_value(value, 0)

    def _format_value(self, value: Any, depth: int) -> str:
        is_literal = self._verb == "v" and "#" in self._flags
        match value:
            case bool():
                return self._pad("true" if value else "false") if self._verb in "tv" else self._format_mismatch(value)
            case int():
                return self._integer(value)
            case float():
                return self._float(value)
            case str():
                return self._string(value)
            case list():
                items = [self._element(item, depth) for item in value]
                return f"[]interface {{}}{{{', '.join(items)}}}" if is_literal else f"[{' '.join(items)}]"
            case dict():
                keys = sorted(value)
                items = [f"{self._element(key, depth)}:{self._element(value[key], depth)}" for key in keys]
                opened = "map[string]interface {}{" if is_literal else "map["
                return opened + (", " if is_literal else " ").join(items) + ("}" if is_literal else "]")
            case _:
                return self._pad(default_text(value)) if self._verb == "v" else self._format_mismatch(value)

    def _element(self, value: Any, depth: int) -> str:
        if value is None:
            return "interface {}(nil)" if self._verb == "v" and "#" in self._flags else self._pad("<nil>")
        return self._format_value(value, depth + 1)

    def _format_mismatch(self, value: Any) -> str:
        return f"%!{self._verb}({type_name(value)}={default_text(value)})"

    def _pad(self, text: str, *, is_number: bool = False) -> str:
        missing = self._width - len(text)
        if missing <= 0:
            return text
        if "-" in self._flags:
            return text + " " * missing
        if "0" in self._flags:
            if is_number and text[:1] in ("+", "-", " "):
                return text[0] + "0" * missing + text[1:]
            return "0" * missing + text
        return " " * missing + text

    def _add_sign(self, text: str, is_negative: bool) -> str:
        if is_negative:
            return f"-{text}"
        return f"+{text}" if "+" in self._flags else f" {text}" if " " in self._flags else text

    def _integer(self, value: int) -> str:
        verb, is_sharp = self._verb, "#" in self._flags
        forms = {"b": "b", "o": "o", "O": "o", "d": "d", "v": "d", "x": "x", "X": "X"}
        if verb in forms:
            digits = format(abs(value), forms[verb])
            if verb == "v" and is_sharp and isinstance(value, Byte):
                return self._pad(f"0x{value:x}")
            if self._precision >= 0:
                digits = "" if self._precision == 0 and value == 0 else digits.rjust(self._precision, "0")
            prefixes = {"b": "0b", "o": "0", "x": "0x", "X": "0X"}
            prefix = "0o" if verb == "O" else prefixes.get(verb, "") if is_sharp else ""
            return self._pad(self._add_sign(prefix + digits, value < 0), is_number=True)
        if verb in "cqU":
            char = chr(value) if 0 <= value < 0x110000 and not 0xD800 <= value < 0xE000 else "\ufffd"
            if verb == "c":
                return self._pad(char)
            if verb == "q":
                return self._pad("'" + quote(char)[1:-1].replace('\\"', '"').replace("'", "\\'") + "'")
            code = f"U+{value:04X}"
            return self._pad(f"{code} '{char}'" if is_sharp and char.isprintable() else code)
        return self._format_mismatch(value)

    def _float(self, value: float) -> str:
        verb = "g" if self._verb == "v" else self._verb
        if verb not in "eEfFgG":
            return self._format_mismatch(value)
        precision = self._precision
        if precision < 0 and verb in "eEfF":
            precision = 6
        text = float_text(value, verb, precision)
        is_negative, text = text.startswith("-"), text.lstrip("+-")
        return self._pad(self._add_sign(text, is_negative), is_number=True)

    def _string(self, value: str) -> str:
        verb = self._verb
        if verb == "v" and "#" in self._flags:
            return self._pad(quote(value))
        if verb in ("s", "v"):
            return self._pad(value[: self._precision] if self._precision >= 0 else value)
        if verb == "q":
            text = value[: self._precision] if self._precision >= 0 else value
            if "#" in self._flags and "`" not in text and all(char.isprintable() or char == "\t" for char in text):
                return self._pad(f"`{text}`")
            return self._pad(_ascii(quote(text)) if "+" in self._flags else quote(text))
        if verb in ("x", "X"):
            data = value.encode("utf-8", "surrogateescape")
            data = data[: self._precision] if self._precision >= 0 else data
            text = data.hex(" ") if " " in self._flags else data.hex()
            if "#" in self._flags and data:
                text = "0x" + (text.replace(" ", " 0x") if " " in self._flags else text)
            return self._pad(text.upper() if verb == "X" else text)
        return self._format_mismatch(value)


def _ascii(text: str) -> str:
    return "".join(
        char if ord(char) < 0x80 else f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
        for char in text
    )
