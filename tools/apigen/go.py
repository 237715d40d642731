"""What a Go type expression of gofacts.json means: pointer or value, list or map, and what is at the end of it."""

from dataclasses import dataclass

MARKS = "!~"
PRIMITIVES = {
    "string": ("string", ""),
    "bool": ("boolean", ""),
    "int": ("integer", "int64"),
    "int32": ("integer", "int32"),
    "int64": ("integer", "int64"),
    "uint32": ("integer", "int64"),
    "float64": ("number", "double"),
}
"""Go's basic types as OpenAPI type and format."""

PACKAGES = {
    "metav1": "io.k8s.apimachinery.pkg.apis.meta.v1",
    "corev1": "io.k8s.api.core.v1",
    "authenticationv1": "io.k8s.api.authentication.v1",
    "runtime": "io.k8s.apimachinery.pkg.runtime",
    "resource": "io.k8s.apimachinery.pkg.api.resource",
    "intstr": "io.k8s.apimachinery.pkg.util.intstr",
    "types": "io.k8s.apimachinery.pkg.types",
}
"""Import names that mean the same package everywhere; `v1` and the like are looked up by what they hold."""

VERSIONED = ("metav1", "corev1", "apiv1", "authenticationv1")
"""Import names of packages that call themselves v1."""

ALIASES = {
    "ResourceList": "map[string]resource.Quantity",
    "ExtraValue": "[]string",
    "Verbs": "[]string",
}
"""Named Go types that are not structs and not strings."""


@dataclass(frozen=True)
class GoField:
    """One field of a Go struct."""

    text: str
    """The type as Go has it, without the mark."""
    printed: bool
    """Printed even when empty: no omitempty."""
    omit_zero: bool

    @property
    def pointer(self) -> bool:
        return self.text.startswith("*")

    @property
    def list(self) -> bool:
        return self.text.startswith("[]") and self.text != "[]byte"

    @property
    def map(self) -> bool:
        return self.text.startswith("map[")


def parse(fact: str) -> GoField:
    text = fact.rstrip(MARKS)
    return GoField(text, printed=fact.endswith("!"), omit_zero=fact.endswith("~"))


def element(text: str) -> str:
    """The type of a list's items or a map's values."""
    return text.split("]", 1)[1]


def package_of(name: str) -> str:
    """io.k8s.api.core.v1.Pod -> io.k8s.api.core.v1"""
    return name.rpartition(".")[0]


def printed_type(owner: str, text: str) -> str:
    """A field's type as Go's error messages print it: the element of a pointer, names with their package."""
    text = text.removeprefix("*")
    if text == "[]byte":
        return "[]uint8"
    if text.startswith("[]"):
        return "[]" + _printed_element(owner, text[2:])
    if text.startswith("map["):
        key, _, value = text[4:].partition("]")
        return f"map[{printed_type(owner, key)}]{_printed_element(owner, value)}"
    package, _, short = text.rpartition(".")
    if package:
        return f"{'v1' if package in VERSIONED else package}.{short}"
    plain = text in PRIMITIVES or text in ("byte", "any", "interface{}")
    return text if plain else f"{owner.split('.')[-2]}.{text}"


def _printed_element(owner: str, text: str) -> str:
    mark = "*" if text.startswith("*") else ""
    return mark + printed_type(owner, text)
