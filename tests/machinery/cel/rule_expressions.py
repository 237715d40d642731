"""Generated rules over the schema of `vectors/schema.json`."""

from __future__ import annotations

from hypothesis import strategies as st

Expressions = st.SearchStrategy[str]


def _fill(template: str, parts: dict[str, Expressions]) -> Expressions:
    pieces = template.split("$")
    drawn = st.tuples(*(parts[piece[0]] for piece in pieces[1:]))
    return drawn.map(
        lambda texts: pieces[0] + "".join(text + piece[1:] for text, piece in zip(texts, pieces[1:], strict=True))
    )


def _any_of(leaves: list[str], templates: list[str], parts: dict[str, Expressions]) -> Expressions:
    return st.one_of(
        st.sampled_from(leaves), st.sampled_from(templates).flatmap(lambda template: _fill(template, parts))
    )


_strings: Expressions = st.deferred(
    lambda: _any_of(
        ["self.s", "self.t", "self.u", "self.e", "'abc'", "self.o.x", "self.lo[0].a", "self.m['k1']", "self.ls2[0]"],
        [
            *("($S + $S)", "$S.replace($S, $S)", "$S.lowerAscii()", "($B ? $S : $S)", "$L.join($S)", "$S.trim()"),
            *("strings.quote($S)", "$L[0]", "$S.substring(1)", "string(bytes($S))", "self.?t.orValue($S)", "dyn($S)"),
            *("$L.max()", "$L.sort()[0]", "$S.find($S)", "self.mo['p'].k", "self.?o.x.orValue($S)"),
        ],
        {"S": _strings, "B": _bools, "L": _lists},
    )
)
_lists: Expressions = st.deferred(
    lambda: _any_of(
        ["self.ls", "self.ls2", "['a', 'b']", "self.set", "self.lo.map(x, x.a)", "self.m.map(k, k)"],
        [
            *("($L + $L)", "$L.map(x, x + $S)", "$L.filter(x, x != $S)", "$S.split(',')", "($B ? $L : $L)", "[$S]"),
            *("$L.reverse()", "$L.slice(0, 1)", "$L.distinct()", "$S.findAll($S)", "self.m.map(k, self.m[k])"),
            *("$L.transformList(i, x, x + $S)", "$L.sortBy(x, x.size())", "self.?ls.orValue($L)", "$L.sort()"),
        ],
        {"S": _strings, "B": _bools, "L": _lists},
    )
)
_bools: Expressions = st.deferred(
    lambda: _any_of(
        [
            *("self.b", "self.i > 3", "has(self.t)", "self.o == self.o2", "self == oldSelf", "self.ll == oldSelf.ll"),
            *("self.lo.all(x, has(x.a) == has(x.b))", "type(self.ios) == int", "self.lo.exists(x, x.a == x.b)"),
            "self.lo.all(x, !has(x.l) || x.l.exists(y, y > 0) && x.b == x.a)",
        ],
        [
            *("($B && $B)", "($B || $B)", "!($B)", "$S == $S", "$S != $S", "$S < $S", "$S.contains($S)", "$S in $L"),
            *("$L.all(x, x == $S)", "$L.exists(x, $S.startsWith(x))", "$L.exists_one(x, x.endsWith($S))", "$L == $L"),
            *("$S.matches('^a+')", "sets.contains($L, $L)", "$L.isSorted()", "$L.all(x, $L.exists(y, x == y))"),
            *("$L.all(i, x, i > 0 && x == $S)", "($B ? $B : $B)", "$S.size() > $L.size()", "isQuantity($S)"),
            *("self.m.all(k, k == $S)", "self.m.exists(k, v, v == $S)", "self.mo.all(k, self.mo[k].k == $S)"),
            *("url($S) == url($S)", "$L.indexOf($S) == 0", "[$B, $B].all(x, x)", "{'a': $S}.all(k, k == $S)"),
        ],
        {"S": _strings, "B": _bools, "L": _lists},
    )
)


def expressions() -> Expressions:
    return _bools.filter(lambda text: len(text) < 400)
