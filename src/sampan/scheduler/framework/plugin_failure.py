"""What the exception of a plugin says to users: the plugin, its method, the file and the line."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable


class PluginFailure(ValueError):
    """A plugin has raised an exception; the message names the plugin, the file and the line."""


def find_plugin_failure(error: Exception, plugin_name: Callable[[object], str]) -> PluginFailure | None:
    """Return the failure of the plugin that is in the traceback of an exception, or None if there is no plugin.

    `plugin_name` returns the name of a plugin, and "" for any other object. The line is that of the plugin's method
    closest to the exception, because the libraries that the method calls do not tell its author where to look. The
    directory of the file is left out: whoever can read events sees the message.
    """
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if name := plugin_name(frame.f_locals.get("self")):
            code = frame.f_code
            source_line = f"{os.path.basename(code.co_filename)}:{line}"
            return PluginFailure(f"plugin {name!r} failed in {code.co_name} ({source_line}): {describe(error)}")
    return None


def describe(error: Exception) -> str:
    """Return the type and the message of an exception: "'rack'" alone does not say that a key is missing."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
