"""The version of Kubernetes that Sampan is: its API, its behavior, and what its components report."""

from typing import Final

GIT_VERSION: Final = "v1.37.1"
MINOR_VERSION: Final = GIT_VERSION.removeprefix("v").rpartition(".")[0]
"""The version without the patch release, as in `1.36`."""
MAJOR, MINOR = MINOR_VERSION.split(".")
DESCRIPTIONS_FILE: Final = f"kubernetes-json-schema/v{MINOR_VERSION}.0-local/_definitions.json"
"""The descriptions of all types, in the package kubernetes-validate."""
