"""The plug-ins that are on by default, in the real server's order."""

from sampan.apiserver.admission.chain import Plugin


def default_plugins() -> list[Plugin]:
    return []
