"""Expressions: values, types, errors, and the functions of Kubernetes' libraries."""

from typing import Any

import pytest

from sampan.machinery.cel import CelError, Environment
from sampan.machinery.cel.checker.types import DYN, STRING, ObjectType, list_of, map_of
from sampan.machinery.cel.escapes import escape_name
from sampan.machinery.cel.library import BINDINGS
from sampan.machinery.cel.library.quantities import quantity_value
from sampan.machinery.cel.library.versions import version_value

ENV = Environment({"x": DYN, "q": DYN, "v": DYN}, libraries=(BINDINGS,), is_homogeneous=False)
VALUES: dict[str, Any] = {
    "x": {"name": "a", "list": [1, 2], "sub": {"on": True}},
    "q": quantity_value("10Gi"),
    "v": version_value("1.2.3"),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('x.name == "a" && x.sub.on', True),
        ("has(x.sub.off)", False),
        ('"sub" in x', True),
        ("x.list.all(n, n > 0)", True),
        ("x.name.upperAscii()", "A"),
        ("cel.bind(n, x.list[1], n * 2)", 4),
        ("x.?gone.orValue(7)", 7),
        ('{"a": [1, 2.5, "s"]}', {"a": [1, 2.5, "s"]}),
        ('q.compareTo(quantity("10240Mi"))', 0),
        ('q.isGreaterThan(quantity("9Gi"))', True),
        ('q.isLessThan(quantity("9Gi"))', False),
        ("q.asInteger()", 10 * 2**30),
        ('isQuantity("1x")', False),
        ('v.compareTo(semver("1.10.0")) < 0', True),
        ('semver("1.0.0-alpha").isLessThan(semver("1.0.0"))', True),
        ("[v.major(), v.minor(), v.patch()]", [1, 2, 3]),
        ('isSemver("1.0")', False),
    ],
)
def test_evaluate(text: str, expected: object) -> None:
    assert ENV.compile(text).evaluate(VALUES) == expected


def test_the_same_text_is_compiled_once() -> None:
    assert ENV.compile("x.name") is ENV.compile("x.name")


_O = ObjectType("test.O", {"name": STRING, "all": list_of(STRING), "by": map_of(STRING, list_of(STRING))})
TYPED = Environment({"o": _O}, is_homogeneous=False)


@pytest.mark.parametrize(
    ("text", "type_name"),
    [("o.name", "string"), ("o.all", "list(string)"), ("o.name == ''", "bool"), ("has(o.by.x)", "bool"), ("1", "int")],
)
def test_result_type(text: str, type_name: str) -> None:
    assert str(TYPED.compile(text).result_type) == type_name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("o.nome", "ERROR: <input>:1:2: undefined field 'nome'\n | o.nome\n | .^"),
        ("1 + p.q.r", "ERROR: <input>:1:5: undeclared reference to 'p' (in container '')\n | 1 + p.q.r\n | ....^"),
    ],
)
def test_compile_error_messages(text: str, message: str) -> None:
    with pytest.raises(CelError) as raised:
        TYPED.compile(text)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [("o.by['x']", "no such key: x"), ("o.by + 1", "no such overload"), ("1 / 0", "division by zero")],
)
def test_evaluation_error_messages(text: str, message: str) -> None:
    with pytest.raises(CelError) as raised:
        Environment({"o": DYN}).compile(text).evaluate({"o": {"by": {}}})
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sets.contains(o.all, ['a'])", True),
        ("sets.equivalent(o.all, ['a', 'b', 'a'])", True),
        ("sets.intersects(o.all, ['c'])", False),
        ("o.all.isSorted()", True),
        ("lists.range(3)", [0, 1, 2]),
        ("[[1], [2, 3]].flatten()", [1, 2, 3]),
        ("[1, [2, [3]]].flatten(2)", [1, 2, 3]),
        ("[1, 2, 1].distinct()", [1, 2]),
        ("[[1], [2], [1]].distinct()", [[1], [2]]),
        ("sets.contains([1, [2]], [[2]])", True),
        ("sets.contains([1, 2], [dyn([2])])", False),
        ("sets.intersects([{'a': 1}], [{'a': 1}, 2])", True),
        ("sets.equivalent(lists.range(600), lists.range(600))", True),
        ("[1, 2, 3].slice(1, 3)", [2, 3]),
        ("[2, 1].sort()", [1, 2]),
        ("[3, 1, 2].max() + [3, 1].min() + [1, 2].sum()", 7),
        ("'ab12'.find('[0-9]')", "1"),
        ("'ab12'.findAll('[0-9]')", ["1", "2"]),
        ("'ab12'.findAll('[0-9]', 1)", ["1"]),
    ],
)
def test_list_set_and_regex_functions(text: str, expected: object) -> None:
    assert TYPED.compile(text).evaluate({"o": {"all": ["a", "b"]}}) == expected


@pytest.mark.parametrize("text", ["o.all.all(a, o.all.all(b, a == b))", "o.all.map(a, o.all.map(b, b))"])
def test_nested_comprehensions_exceed_the_cost_limit(text: str) -> None:
    program = TYPED.compile(text)
    program.evaluate({"o": {"all": ["a"] * 90}})
    with pytest.raises(CelError, match="operation cancelled: actual cost limit exceeded"):
        program.evaluate({"o": {"all": ["a"] * 1000}})


def test_selected_fields_of_a_variable() -> None:
    tree = TYPED.compile("[o.?name.orValue(''), {'a': o.by.x[0]}.a].all(item, item != '')").tree
    assert [name for name in ("name", "by", "all") if tree.selects("o", name)] == ["name", "by"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.b-c/d", "a__dot__b__dash__c__slash__d"),
        ("a__b", "a__underscores__b"),
        ("in", "__in__"),
        ("1a", ""),
        ("ü", ""),
    ],
)
def test_field_names_are_escaped_to_identifiers(name: str, expected: str) -> None:
    assert escape_name(name) == expected


NETWORK = Environment({"x": DYN})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("isIP('10.0.0.1') && !isIP('10.0.0.256') && !isIP('::ffff:1.2.3.4') && !isIP('fe80::1%eth0')", True),
        ("ip.isCanonical('2001:db8::1') && !ip.isCanonical('2001:DB8::1')", True),
        ("[ip('10.0.0.1').family(), ip('::1').family()]", [4, 6]),
        (
            "ip('127.0.0.1').isLoopback() && ip('0.0.0.0').isUnspecified() && ip('169.254.1.1').isLinkLocalUnicast()",
            True,
        ),
        ("ip('224.0.0.1').isLinkLocalMulticast() && ip('ff02::1').isLinkLocalMulticast()", True),
        ("ip('192.168.0.1').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast()", True),
        ("isCIDR('10.0.0.0/8') && !isCIDR('10.0.0.0') && !isCIDR('10.0.0.0/255.0.0.0')", True),
        ("cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.1'))", True),
        (
            "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.1.0.0/16').containsCIDR(cidr('10.0.0.0/8'))",
            True,
        ),
        ("cidr('10.0.0.0/8').containsIP('::1') || cidr('10.0.0.0/8').containsCIDR('::/0')", False),
        ("cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.1.2.3/8').ip() == ip('10.1.2.3')", True),
        ("cidr('10.1.2.3/8').prefixLength()", 8),
        ("isURL('https://a.b:1/c') && isURL('/only/a/path') && !isURL('nonsense') && !isURL('http://a:b/')", True),
        ("[url('https://u@a.b:1/c%20d?k=v&k=w').getScheme(), url('https://u@a.b:1/').getHost()]", ["https", "a.b:1"]),
        ("[url('https://a.b:1').getHostname(), url('https://a.b:1').getPort(), url('/p').getPort()]", ["a.b", "1", ""]),
        ("url('https://a/c%20d?k=v&k=w').getEscapedPath()", "/c%20d"),
        ("url('https://a/?k=v&k=w&l').getQuery()", {"k": ["v", "w"], "l": [""]}),
    ],
)
def test_ip_cidr_and_url_functions(text: str, expected: object) -> None:
    assert NETWORK.compile(text).evaluate({"x": 1}) == expected


@pytest.mark.parametrize("text", ["ip('x')", "cidr('1.2.3.4')", "url('x')"])
def test_invalid_ip_cidr_and_url_are_errors(text: str) -> None:
    with pytest.raises(CelError):
        NETWORK.compile(text).evaluate({"x": 1})
