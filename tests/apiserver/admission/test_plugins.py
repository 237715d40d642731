import pytest

from sampan.apiserver.admission.plugins import OFF, PLUGINS, UnknownPlugin, default_plugins


def names(disabled: tuple[str, ...] = (), enabled: tuple[str, ...] = ()) -> list[str]:
    return [plugin.name for plugin in default_plugins(disabled, enabled)]


def test_every_plugin_has_the_name_it_is_listed_under() -> None:
    assert {name: make().name for name, make in PLUGINS.items()} == {name: name for name in PLUGINS}
    assert PLUGINS.keys() >= OFF


def test_switching_keeps_the_order() -> None:
    assert names() == [name for name in PLUGINS if name not in OFF]
    assert names(enabled=tuple(reversed(list(PLUGINS)))) == list(PLUGINS)
    assert names(disabled=("Priority",)) == [name for name in names() if name != "Priority"]


@pytest.mark.parametrize("where", ["disabled", "enabled"])
def test_an_unknown_name_is_an_error_that_names_it(where: str) -> None:
    with pytest.raises(UnknownPlugin, match="'Nonsense'"):
        default_plugins(**{where: ("Priority", "Nonsense")})
