"""Semantics of expressions, grouped like the conformance tests of cel-spec."""

import math
from typing import Any

import pytest

from sampan.machinery.cel import CelError, Environment
from sampan.machinery.cel.checker.types import (
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    ObjectType,
    TypeField,
    list_of,
    map_of,
    nullable,
)
from sampan.machinery.cel.library import BINDINGS, encoders
from sampan.machinery.cel.runtime.values import Duration, OptionalValue, Timestamp, TypeValue, Uint

_OBJECT = ObjectType(
    "test.Object",
    {
        "name": STRING,
        "count": nullable(INT),
        "items": list_of(STRING),
        "labels": map_of(STRING, STRING),
        "since": TIMESTAMP,
        "a__dash__b": TypeField("a-b", INT),
        "inner": ObjectType("test.Inner", {"value": INT}),
    },
)
ENV = Environment(
    {"x": DYN, "o": _OBJECT}, libraries=(BINDINGS, encoders.LIBRARY), types=[_OBJECT], is_homogeneous=False
)
VALUES: dict[str, Any] = {
    "x": {"n": 1, "f": 1.5, "s": "text", "l": [1, 2, 3], "m": {"k": "v"}, "none": None, "t": True},
    "o": {
        "name": "web",
        "count": None,
        "items": ["a", "b"],
        "labels": {"app": "web"},
        "since": "2024-02-29T12:30:45.5Z",
        "a-b": 4,
        "inner": {"value": 7},
    },
}

BASIC = [
    ("1", 1),
    ("0x1F", 31),
    ("-9223372036854775808", -(2**63)),
    ("18446744073709551615u", Uint(2**64 - 1)),
    ("0xFFu", Uint(255)),
    ("1.5e3", 1500.0),
    (".5", 0.5),
    ("null", None),
    ("[]", []),
    ("[1, 2,]", [1, 2]),
    ("{'a': 1, 'b': 2,}", {"a": 1, "b": 2}),
    ("{true: 1, 1: 2}[true]", 1),
    ("{true: 1, 1: 2}[1]", 2),
    ("{true: 'a'}", {True: "a"}),
    ("1 // a comment\n + 2", 3),
]
STRINGS = [
    (r"'\n\t\\\'\"\x41\u00e9\U0001F600\101'", "\n\t\\'\"Aé😀A"),
    (r"r'\n'", "\\n"),
    ('R"\\d+"', "\\d+"),
    ('"""a"b\nc"""', 'a"b\nc'),
    ("'''it's'''", "it's"),
    (r"b'\xff\000abc'", b"\xff\x00abc"),
    ("b'é'", "é".encode()),
    (r"br'\n'", b"\\n"),
    ("'a' + 'b' == 'ab'", True),
    ("b'a' + b'b'", b"ab"),
    ("size('héé')", 3),
    ("size(b'é')", 2),
    ("'héllo'.contains('él') && 'héllo'.startsWith('h') && 'héllo'.endsWith('lo')", True),
    ("'' in ['']", True),
    ("'hubba'.matches('ubb') && !'hubba'.matches('^ubb') && 'hubba'.matches('(?i)UBB')", True),
    ("matches('abc', 'b')", True),
    ("'a' < 'b' && 'B' < 'a' && 'a' < 'aa'", True),
]
INTEGERS = [
    ("7 / 2", 3),
    ("-7 / 2", -3),
    ("7 % -2", 1),
    ("-7 % 2", -1),
    ("7u / 2u", Uint(3)),
    ("2 + 3 * 4 - 1", 13),
    ("(2 + 3) * 4", 20),
    ("10 - 4 - 3", 3),
    ("--5", 5),
    ("-(-5)", 5),
    ("1 - -1", 2),
]
DOUBLES = [
    ("1.0 / 0.0", math.inf),
    ("-1.0 / 0.0", -math.inf),
    ("0.0 / 0.0 == 0.0 / 0.0", False),
    ("0.1 + 0.2", 0.1 + 0.2),
    ("1.0 / -0.0", -math.inf),
]
COMPARISONS = [
    ("1 < 2u && 1 <= 1.0 && 2.5 > 2 && 3u >= 2.9", True),
    ("dyn(1) == 1.0 && dyn(1u) == 1", True),
    ("dyn(1) == '1'", False),
    ("dyn('a') != 1", True),
    ("dyn(9007199254740993) == 9007199254740992.0", False),
    ("[1, 2] == [1.0, 2u]", True),
    ("{'a': [dyn(1)]} == {'a': [1.0]}", True),
    ("{'a': 1} == {'b': 1}", False),
    ("null == null", True),
    ("x.none == null", True),
    ("true > false", True),
    ("b'a' < b'b'", True),
    ("dyn(1) in [1.0, 2.0]", True),
    ("dyn(1.0) in {1: 'a'}", True),
    ("'k' in x.m && !('z' in x.m)", True),
    ("type(1) == int && type('') == string && type([]) == list && type({}) == map", True),
    ("type(type(1)) == type && type(null) == null_type", True),
    ("type(1u) != int", True),
]
CONVERSIONS = [
    ("int(1.9)", 1),
    ("int(-1.9)", -1),
    ("int('-12')", -12),
    ("int(3u)", 3),
    ("int(timestamp('1970-01-01T00:01:00Z'))", 60),
    ("uint(3)", Uint(3)),
    ("uint('7')", Uint(7)),
    ("double('1.5')", 1.5),
    ("double(2)", 2.0),
    ("string(1.0)", "1"),
    ("string(1e21)", "1000000000000000000000"),
    ("string(0.0001)", "0.0001"),
    ("string(true)", "true"),
    ("string(b'abc')", "abc"),
    ("string(2u)", "2"),
    ("string(duration('1h1.5s'))", "3601.5s"),
    ("string(timestamp('2024-01-01T01:02:03.004Z'))", "2024-01-01T01:02:03.004Z"),
    ("bytes('é')", "é".encode()),
    ("bool('true') && !bool('FALSE')", True),
    ("dyn([1, 'a'])", [1, "a"]),
    ("type(dyn(1))", TypeValue("int")),
]
FIELDS = [
    ("o.name", "web"),
    ("o.inner.value", 7),
    ("o.labels.app + o.labels['app']", "webweb"),
    ("has(o.name) && has(o.labels.app) && !has(o.labels.zone)", True),
    ("o.a__dash__b", 4),
    ("x.m.k", "v"),
    ("x['l'][2]", 3),
    ("x.l[1.0]", 2),
    ("o.count == null", True),
    ("o.since.getFullYear()", 2024),
    ("test.Object{name: 'a'}.name", "a"),
]
LOGIC = [
    ("true && true || false", True),
    ("false && 1 / 0 == 1", False),
    ("1 / 0 == 1 && false", False),
    ("true || 1 / 0 == 1", True),
    ("1 / 0 == 1 || true", True),
    ("true ? 1 : 1 / 0", 1),
    ("false ? 1 / 0 : 2", 2),
    ("true ? (false ? 1 : 2) : 3", 2),
    ("!true || !false", True),
    ("true && true && false || true", True),
    ("1 / 0 == 1 || false || true", True),
]
MACROS = [
    ("[1, 2, 3].all(e, e > 0)", True),
    ("[].all(e, e > 0) && ![].exists(e, true)", True),
    ("[0, 7].all(e, 6 / e > 2)", False),
    ("[0, 1].exists(e, 1 / e == 1)", True),
    ("[1, 2, 2].exists_one(e, e == 1) && ![2, 2].existsOne(i, e, e == 2)", True),
    ("[1, 2, 3].map(e, e * 2)", [2, 4, 6]),
    ("[1, 2, 3].map(e, e > 1, e * 2)", [4, 6]),
    ("[1, 2, 3].filter(e, e > 1)", [2, 3]),
    ("{'a': 1, 'b': 2}.map(k, k)", ["a", "b"]),
    ("{'a': 1}.all(k, k == 'a')", True),
    ("[[1, 2], [3]].map(l, l.map(e, e + 1))", [[2, 3], [4]]),
    ("[1, 2].map(x, [3].map(y, x + y))", [[4], [5]]),
    ("cel.bind(a, 5, a * a)", 25),
    ("cel.bind(a, 1, cel.bind(a, a + 1, a))", 2),
]
TWO_VARIABLES = [
    ("['a', 'b'].all(i, v, i < 2 && v != '')", True),
    ("{'a': 1}.exists(k, v, k == 'a' && v == 1)", True),
    ("[1, 2].existsOne(i, v, v == 2)", True),
    ("['a', 'b'].transformList(i, v, v + string(i))", ["a0", "b1"]),
    ("['a', 'b'].transformList(i, v, i > 0, v)", ["b"]),
    ("{'a': 1, 'b': 2}.transformMap(k, v, v * 10)", {"a": 10, "b": 20}),
    ("['x', 'y'].transformMap(i, v, v)", {0: "x", 1: "y"}),
    ("{'a': 1, 'b': 2}.transformMap(k, v, v > 1, v)", {"b": 2}),
    ("{'a': 'x'}.transformMapEntry(k, v, {v: k})", {"x": "a"}),
]
NAMESPACES = [
    ("cel.bind(o, 1, o + 1)", 2),
    ("[2].map(x, x)", [2]),
    (".x.n", 1),
    ("type(timestamp(0)) == google.protobuf.Timestamp", True),
]
STRING_EXTENSION = [
    ("'tacocat'.charAt(3) + 'abc'.charAt(3)", "o"),
    ("'hello mellow'.indexOf('ello') * 100 + 'hello mellow'.indexOf('ello', 2)", 107),
    ("'hello mellow'.lastIndexOf('ello') * 100 + 'hello mellow'.lastIndexOf('ello', 6)", 701),
    ("'TacoCÆt'.lowerAscii() + 'tacoæt'.upperAscii()", "tacocÆtTACOæT"),
    ("'hello hello'.replace('he', 'we', 1)", "wello hello"),
    ("'ab'.replace('', '_')", "_a_b_"),
    (
        "'a,b,c'.split(',') + 'a,b,c'.split(',', 2) + 'abc'.split('') + 'abc'.split('', 2)",
        ["a", "b", "c", "a", "b,c", "a", "b", "c", "a", "bc"],
    ),
    ("'a,b'.split(',', 0)", []),
    ("'tacocat'.substring(4) + 'tacocat'.substring(0, 4)", "cattaco"),
    ("'  \\u00a0trim\\n '.trim()", "trim"),
    ("['x', 'y'].join() + ['x', 'y'].join('-')", "xyx-y"),
    ("strings.quote('a\\n\"b\\\\')", '"a\\n\\"b\\\\"'),
    (
        "'%s %d %.2f %e %b %x %X %o %%'.format(['s', 42, 1.239, 12.5, 5, 255, 'hi', 8])",
        "s 42 1.24 1.250000e+01 101 ff 6869 10 %",
    ),
    ("'%s'.format([[1, 'a', 2.5, null, {'k': true}]])", '[1, "a", 2.500000, null, {"k":true}]'),
    ("base64.encode(b'hello') + string(base64.decode('aGk'))", "aGVsbG8=hi"),
]
TIMES = [
    ("timestamp('2009-02-13T23:31:30Z') == timestamp(1234567890)", True),
    ("timestamp('2024-01-01T00:00:00+02:00')", Timestamp(1704060000 * 10**9)),
    ("timestamp('2024-01-31T00:00:00Z') + duration('24h') == timestamp('2024-02-01T00:00:00Z')", True),
    ("timestamp('2024-01-02T00:00:00Z') - timestamp('2024-01-01T00:00:00Z')", Duration(86400 * 10**9)),
    ("duration('1h') + duration('30m') - duration('15m') == duration('75m')", True),
    ("duration('1m30s').getSeconds() + duration('2h').getHours() + duration('3m').getMinutes()", 95),
    ("duration('1.5s').getMilliseconds()", 1500),
    ("o.since.getMonth() * 100 + o.since.getDate()", 129),
    ("o.since.getDayOfMonth() + o.since.getDayOfWeek() + o.since.getDayOfYear()", 28 + 4 + 59),
    ("o.since.getHours('+02:00') * 10000 + o.since.getMinutes() * 100 + o.since.getSeconds()", 143045),
    ("o.since.getHours('America/New_York')", 7),
    ("o.since.getMilliseconds()", 500),
    ("duration('1h') > duration('59m') && timestamp(1) > timestamp(0)", True),
    ("duration('-1.5h') == duration('0s') - duration('5400s')", True),
]
OPTIONALS = [
    ("x.?n.value() + x.?gone.orValue(5)", 6),
    ("x.?m.?k.orValue('')", "v"),
    ("x.?gone.?k.hasValue()", False),
    ("x.l[?9].hasValue() || x.l[?0].hasValue()", True),
    ("x.m[?'k'].value()", "v"),
    ("optional.of(1).or(optional.of(2)).value() + optional.none().or(optional.of(2)).value()", 3),
    ("optional.ofNonZeroValue('').hasValue()", False),
    ("[?x.?n, ?x.?gone, 3]", [1, 3]),
    ("{?'a': x.?n, ?'b': x.?gone}", {"a": 1}),
    ("x.?n.optMap(v, v + 1).value()", 2),
    ("x.?gone.optMap(v, v + 1).hasValue()", False),
    ("x.?m.optFlatMap(v, v.?k).value()", "v"),
    ("optional.of(1) == optional.of(1) && optional.none() == optional.none()", True),
    ("has(x.?m.k) && !has(x.?m.z)", True),
    ("[1, 2].first().value() + [1, 2].last().value()", 3),
]
LIBRARIES = [
    ("[3, 1, 2].sort() == [1, 2, 3] && ['b', 'a'].isSorted() == false", True),
    ("[1, 2, 3].sum() + [1, 2].min() + [1, 2].max() + [1, 2].indexOf(2) + [1, 1].lastIndexOf(1)", 11),
    ("[1.5, 2.5].sum()", 4.0),
    ("[duration('1s'), duration('2s')].sum() == duration('3s')", True),
    ("[{'n': 2}, {'n': 1}].sortBy(e, e.n).map(e, e.n)", [1, 2]),
    ("[1, 2, 3].reverse() + [1, 1, 2].distinct() + [1, 2, 3].slice(1, 2)", [3, 2, 1, 1, 2, 2]),
    ("quantity('1.5Gi').asApproximateFloat() > 1e9 && quantity('5').asInteger() == 5", True),
    ("quantity('1').add(quantity('500m')).compareTo(quantity('1500m')) == 0 && sign(quantity('2').sub(1)) == 1", True),
    ("quantity('1Ki') == quantity('1024') && !quantity('500m').isInteger()", True),
    ("semver('v1.2', true).minor() == 2 && isSemver('v1.2.3', true) && !isSemver('v1.2.3')", True),
    ("semver('1.0.0-rc.1').isLessThan(semver('1.0.0')) && semver('1.0.0-2').isLessThan(semver('1.0.0-10'))", True),
    ("format.dns1123Label().validate('a-b').hasValue()", False),
    ("format.dns1123Label().validate('A').value().size() > 0", True),
    ("format.named('uuid').value().validate('x').value()", ["does not match the UUID format"]),
    ("format.named('nothing').hasValue()", False),
    ("string(ip('::1')) + string(cidr('10.0.0.0/8'))", "::110.0.0.0/8"),
]
CASES = {
    **{f"basic: {text}": (text, value) for text, value in BASIC},
    **{f"string: {text}": (text, value) for text, value in STRINGS},
    **{f"integer: {text}": (text, value) for text, value in INTEGERS},
    **{f"double: {text}": (text, value) for text, value in DOUBLES},
    **{f"comparison: {text}": (text, value) for text, value in COMPARISONS},
    **{f"conversion: {text}": (text, value) for text, value in CONVERSIONS},
    **{f"field: {text}": (text, value) for text, value in FIELDS},
    **{f"logic: {text}": (text, value) for text, value in LOGIC},
    **{f"macro: {text}": (text, value) for text, value in MACROS},
    **{f"two variables: {text}": (text, value) for text, value in TWO_VARIABLES},
    **{f"namespace: {text}": (text, value) for text, value in NAMESPACES},
    **{f"string extension: {text}": (text, value) for text, value in STRING_EXTENSION},
    **{f"time: {text}": (text, value) for text, value in TIMES},
    **{f"optional: {text}": (text, value) for text, value in OPTIONALS},
    **{f"library: {text}": (text, value) for text, value in LIBRARIES},
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_value(text: str, expected: object) -> None:
    value = ENV.compile(text).evaluate(VALUES)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("9223372036854775807 + 1", "integer overflow"),
        ("-9223372036854775808 - 1", "integer overflow"),
        ("9223372036854775807 * 2", "integer overflow"),
        ("-(-9223372036854775808)", "integer overflow"),
        ("-9223372036854775808 / -1", "integer overflow"),
        ("0u - 1u", "unsigned integer overflow"),
        ("18446744073709551615u + 1u", "unsigned integer overflow"),
        ("1 / 0", "division by zero"),
        ("1u / 0u", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("int(1e19)", "integer overflow"),
        ("int(0.0 / 0.0)", "integer overflow"),
        ("uint(-1)", "unsigned integer overflow"),
        ("int('x')", "type conversion error from 'string' to 'int'"),
        ("double('x')", "type conversion error from 'string' to 'double'"),
        ("bool('maybe')", "type conversion error"),
        (r"string(b'\xff')", "invalid UTF-8"),
        ("x.gone", "no such key: gone"),
        ("x.m['z']", "no such key: z"),
        ("x.l[3]", "index out of bounds: 3"),
        ("x.l[-1]", "index out of bounds: -1"),
        ("x.n.y", "no such key: y"),
        ("x.n + 'a'", "no such overload"),
        ("x.s < 1", "no such overload"),
        ("x.n && true", "no such overload"),
        ("x.l.all(e, e)", "no such overload"),
        ("x.n ? 1 : 2", "no such overload"),
        ("{'a': 1, 'a': 2}", "repeated key"),
        ("{x.n: 1, 1: 2}", "repeated key"),
        ("[0].all(e, 1 / e > 0)", "division by zero"),
        ("1 / 0 == 1 || 1 / 0 == 1", "division by zero"),
        ("timestamp(999999999999)", "timestamp overflow"),
        ("timestamp('9999-12-31T23:59:59Z') + duration('1s')", "timestamp overflow"),
        ("duration(x.s)", "invalid duration"),
        ("timestamp(x.s)", "parsing time"),
        ("timestamp(0).getHours('Nowhere/Land')", "unknown time zone"),
        ("timestamp(0).getHours('../../etc/passwd')", "unknown time zone"),
        ("optional.none().value()", "optional.none\\(\\) dereference"),
        ("'abc'.charAt(4)", "index out of range: 4"),
        ("'abc'.substring(2, 1)", "invalid substring range. start: 2, end: 1"),
        ("'%d'.format(['a'])", "decimal clause can only be used on integers"),
        ("'%s %s'.format(['a'])", "index 1 out of range"),
        ("'%q'.format(['a'])", "unrecognized formatting clause"),
        ("'a'.matches(x.s + '(')", "missing closing \\)"),
        ("[].min()", "min called on empty list"),
        ("[1, 2].slice(1, 5)", "list is length 2"),
        ("quantity('1.5').asInteger()", "cannot convert value to integer"),
        ("quantity('x')", "quantity parse error during conversion from string: quantities must match"),
        ("lists.range(-1)", "non-negative"),
    ],
)
def test_evaluation_error(text: str, message: str) -> None:
    with pytest.raises(CelError, match=message):
        ENV.compile(text).evaluate(VALUES)


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("[]", "list(dyn)"),
        ("[1]", "list(int)"),
        ("{'a': [1u]}", "map(string, list(uint))"),
        ("[1].map(e, string(e))", "list(string)"),
        ("{'a': 1}.map(k, k)", "list(string)"),
        ("true ? 1 : 2", "int"),
        ("[] + [1]", "list(int)"),
        ("x.anything.at.all", "dyn"),
        ("o.labels", "map(string, string)"),
        ("o.count", "wrapper(int)"),
        ("optional.of('a')", "optional_type(string)"),
        ("o.?name", "optional_type(string)"),
        ("optional.none().orValue(1)", "int"),
        ("type(1)", "type(int)"),
        ("timestamp(0) - timestamp(0)", "duration"),
        ("null", "null"),
        ("['a'].transformMap(i, v, 1.5)", "map(int, double)"),
        ("quantity('1')", "kubernetes.Quantity"),
    ],
)
def test_result_type(text: str, type_: str) -> None:
    assert str(ENV.compile(text).result_type) == type_


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 +", "1:4: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(',"),
        ("x =", "1:3: Syntax error: token recognition error at: '='\n | x =\n | ..^"),
        ("x x", "1:3: Syntax error: extraneous input 'x' expecting <EOF>"),
        ("this is not it", "1:6: Syntax error: mismatched input 'is' expecting <EOF>"),
        ("(1", "1:3: Syntax error: mismatched input '<EOF>' expecting ')'"),
        ("'abc", "1:1: Syntax error: token recognition error at: ''abc'"),
        ("for", "1:1: reserved identifier: for"),
        ("99999999999999999999", "1:1: invalid int literal"),
        ("99999999999999999999u", "1:1: invalid uint literal"),
        ("[1].all(1, true)", "1:9: argument must be a simple name"),
        ("[1].map(x.y, true)", "argument is not an identifier"),
        ("has(x)", "1:5: invalid argument to has() macro"),
        ("[1].all(i, i, true)", "duplicate variable name"),
        ("cel.bind(1, 1, 1)", "cel.bind() variable names must be simple identifiers"),
        ("y.z", "1:1: undeclared reference to 'y' (in container '')\n | y.z\n | ^"),
        ("f(1)", "1:2: undeclared reference to 'f' (in container '')"),
        ("'a'.f()", "1:6: undeclared reference to 'f' (in container '')"),
        ("x.f()", "1:4: undeclared reference to 'f' (in container '')"),
        ("o.nome", "1:2: undefined field 'nome'\n | o.nome\n | .^"),
        ("1 == 'a'", "1:3: found no matching overload for '_==_' applied to '(int, string)'"),
        ("1 + 1u", "1:3: found no matching overload for '_+_' applied to '(int, uint)'"),
        ("'a'.startsWith(1)", "1:15: found no matching overload for 'startsWith' applied to 'string.(int)'"),
        ("1 && true", "1:3: found no matching overload for '_&&_' applied to '(int, bool)'"),
        ("!1", "1:1: found no matching overload for '!_' applied to '(int)'"),
        ("1 ? 2 : 3", "1:3: found no matching overload for '_?_:_' applied to '(int, int, int)'"),
        ("true ? 1 : 'a'", "found no matching overload for '_?_:_' applied to '(bool, int, string)'"),
        ("o.name.x", "type 'string' does not support field selection"),
        (
            "(1).all(e, true)",
            "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ("[1].all(e, e)", "found no matching overload for '_&&_' applied to '(bool, int)'"),
        ("duration('1x')", "1:10: invalid duration argument"),
        ("timestamp('x')", "1:11: invalid timestamp argument"),
        ("'a'.matches('(')", "1:13: invalid matches argument"),
        ("\n\n 1 + y", "3:6: undeclared reference to 'y' (in container '')\n |  1 + y\n | .....^"),
        ("'é' + y", "1:7: undeclared reference to 'y' (in container '')\n | 'é' + y\n | .．....^"),
        ("y + z", "'y' (in container '')\n | y + z\n | ^\nERROR: <input>:1:5: undeclared reference to 'z'"),
        ("test.Object{nome: 1}", "undefined field 'nome'"),
        ("test.Object{name: 1}", "expected type of field 'name' is 'string' but provided type is 'int'"),
        ("Nothing{}", "undeclared reference to 'Nothing'"),
    ],
)
def test_compile_error(text: str, message: str) -> None:
    with pytest.raises(CelError) as error:
        ENV.compile(text)
    assert message in str(error.value)
    assert str(error.value).startswith("ERROR: <input>:")


def test_mixed_list_and_map_literals_are_rejected_by_default() -> None:
    with pytest.raises(CelError, match="expected type 'int' but found 'string'"):
        Environment({}).compile("[1, 'a']")
    with pytest.raises(CelError, match="expected type 'string' but found 'int'"):
        Environment({}).compile("{'a': 'b', 'c': 1}")


def test_optional_result_is_returned_as_optional_value() -> None:
    value = ENV.compile("x.?n").evaluate(VALUES)
    assert isinstance(value, OptionalValue)
    assert value.value == 1


def test_a_variable_without_a_value_is_an_error() -> None:
    with pytest.raises(CelError, match="no such attribute"):
        ENV.compile("x").evaluate({})
