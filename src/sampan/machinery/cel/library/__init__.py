"""Libraries of functions. Each file has one table: names, signatures, implementations, costs and estimates.

`kubernetes()` returns the base environment of Kubernetes v1.36 (`k8s.io/apiserver/pkg/cel/environment`); device
selectors add `BINDINGS`. The functions of `encoders` are in no environment of Kubernetes; they are for other users of
the language.
"""

from __future__ import annotations

from functools import cache

from sampan.machinery.cel.checker.declarations import Library
from sampan.machinery.cel.syntax import macros


@cache
def kubernetes() -> tuple[Library, ...]:
    """Return the libraries of every expression in Kubernetes, imported with the first environment."""
    from sampan.machinery.cel.library import (
        addresses,
        authorizer,
        conversions,
        formats,
        lists,
        optionals,
        quantities,
        regex,
        sets,
        standard,
        strings,
        times,
        urls,
        versions,
    )

    modules = (
        *(standard, conversions, times, optionals, strings, lists, sets, regex),
        *(urls, addresses, quantities, versions, formats, authorizer),
    )
    return (*(module.LIBRARY for module in modules), Library(macros={**macros.STANDARD, **macros.TWO_VARIABLES}))


BINDINGS = Library(macros=macros.BINDINGS)
"""The library with the `cel.bind` macro."""

__all__ = ["BINDINGS", "kubernetes"]
