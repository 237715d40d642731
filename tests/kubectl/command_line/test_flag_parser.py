"""The syntax of flags, and the texts of errors."""

from typing import Any

import click
import pytest

from sampan.kubectl.command_line.flag_parser import DURATION, STRING_SLICE, FlagError, FlagSet

FLAGS = FlagSet(
    [
        click.Option(("-o", "--output"), default=""),
        click.Option(("-w", "--watch"), is_flag=True),
        click.Option(("-A", "--all-namespaces"), is_flag=True),
        click.Option(("--wait",), is_flag=True, default=True),
        click.Option(("-f", "--filename", "files"), multiple=True, type=STRING_SLICE),
        click.Option(("--env",), multiple=True),
        click.Option(("--chunk-size",), type=click.INT),
        click.Option(("--timeout",), type=DURATION),
        click.Option(("--cascade",), is_flag=False, flag_value="background", default="background"),
    ]
)


@pytest.mark.parametrize(
    ("args", "values", "words"),
    [
        ("-o yaml pods", {"output": "yaml"}, ["pods"]),
        ("pods -oyaml", {"output": "yaml"}, ["pods"]),
        ("pods -o=yaml x", {"output": "yaml"}, ["pods", "x"]),
        ("--output=jsonpath={.a=b}", {"output": "jsonpath={.a=b}"}, []),
        ("-Aw", {"all_namespaces": True, "watch": True}, []),
        ("-Awojson", {"all_namespaces": True, "watch": True, "output": "json"}, []),
        ("--wait=false x", {"wait": False}, ["x"]),
        ("--wait false", {"wait": True}, ["false"]),
        ("-w=T", {"watch": True}, []),
        ("-f a,b -f c", {"files": ("a", "b", "c")}, []),
        ('-f "a,b"', {"files": ("a,b",)}, []),
        ("--env a,b --env c", {"env": ("a,b", "c")}, []),
        ("--chunk-size=-1", {"chunk_size": -1}, []),
        ("--chunk_size=5", {"chunk_size": 5}, []),
        ("--timeout 1m30s", {"timeout": 90.0}, []),
        ("--cascade orphan", {"cascade": "background"}, ["orphan"]),
        ("--cascade=orphan", {"cascade": "orphan"}, []),
        ("-- -o x", {}, ["-o", "x"]),
        ("- x", {}, ["-", "x"]),
    ],
)
def test_syntax(args: str, values: dict[str, Any], words: list[str]) -> None:
    parsed = FLAGS.parse(args.split())
    assert (parsed.values, parsed.words) == (values, words)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("--nonsense", "unknown flag: --nonsense"),
        ("-x", "unknown shorthand flag: 'x' in -x"),
        ("-wx", "unknown shorthand flag: 'x' in -x"),
        ("-o", "flag needs an argument: 'o' in -o"),
        ("--output", "flag needs an argument: --output"),
        ("--=x", "bad flag syntax: --=x"),
        ("---x", "bad flag syntax: ---x"),
        (
            "--chunk-size=x",
            'invalid argument "x" for "--chunk-size" flag: strconv.ParseInt: parsing "x": invalid syntax',
        ),
        (
            "--watch=maybe",
            'invalid argument "maybe" for "-w, --watch" flag: strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
        ("--timeout=x", 'invalid argument "x" for "--timeout" flag: time: invalid duration "x"'),
    ],
)
def test_errors(args: str, message: str) -> None:
    with pytest.raises(FlagError) as raised:
        FLAGS.parse(args.split())
    assert str(raised.value) == message


def test_words_before_the_dash_are_counted() -> None:
    assert FLAGS.parse(["a", "-w", "--", "b"]).args_before_dash == 1
    assert FLAGS.parse(["a", "b"]).args_before_dash == -1


def test_flags_end_at_the_first_word_if_not_interspersed() -> None:
    parsed = FLAGS.parse(["-w", "pod", "ls", "-l"], is_interspersed=False)
    assert (parsed.values, parsed.words) == ({"watch": True}, ["pod", "ls", "-l"])


@pytest.mark.parametrize(("args", "at"), [("-o yaml get", 2), ("-w get", 1), ("--nonsense x get", 2), ("-w", None)])
def test_position_of_the_first_word(args: str, at: int | None) -> None:
    assert FLAGS.position_of_word(args.split()) == at
