"""Where the output of kubectl v1.32 to v1.36 differs from v1.37, the version of `sampan kubectl`.

The comparison runs with the kubectl of the machine. With an older version, texts that differ are made equal on both
sides, and lines whose output differs in more than that are run but not compared.
"""

from __future__ import annotations

import re

SAME = (1, 37)
"""The version whose output is compared exactly."""
OLDEST = (1, 32)
"""The oldest version whose differences are listed here."""
AREAS = ("apply", "delete", "edit", "everyday", "expose", "label", "patch", "rollout", "scale", "set", "streams")
"""Areas that are compared with older versions too."""

_TEXTS = [
    (reason, re.compile(pattern, re.MULTILINE), replacement)
    for reason, pattern, replacement in (
        ("empty fields of generated objects are not printed", r'^ *"?creationTimestamp"?: null,?\n', ""),
        ("empty fields of generated objects are not printed", r",(?=\n *[}\]])", ""),
        ("empty fields of generated objects are not printed", r"metadata:(?: \{\})?$", "metadata:"),
        ("a kubeconfig without preferences is printed without them", r'^ *"?preferences"?: \{\},?\n', ""),
        ("delete names the namespace", r" deleted from \S+ namespace", " deleted"),
        ("the answer to a question is no unless it is yes", r"\(y/[nN]\)", "(y/n)"),
        ("there is the output format kyaml", r"(?<=,)kyaml,", ""),
        ("errors of the command line begin with a small letter", r"^Error: (?!from server)", "error: "),
        ("errors begin with a small letter", r"^error: Invalid argument syntax", "error: invalid argument syntax"),
        ("errors of the command line refer to `-h`", r"^See '.*' for (?:help and examples|usage)\.?\n", ""),
        ("the version itself", r"^(?:Client|Kustomize) Version: .*\n", ""),
        ("the version itself", r"(?<=\"kubectl/)v[^\"]*", "VERSION"),
        ("the version itself", r"^WARNING: version difference between client .*\n", ""),
        ("debug has no legacy profile", r"^--profile=legacy is deprecated .*\n", ""),
        ("a wait without conditions prints a list", r'(?<=unrecognized condition: )(?:""|\[\])', "NONE"),
        ("an autoscaler takes --cpu", r"^Flag --cpu-percent has been deprecated, .*\n", ""),
        ("errors name the containers of the pod", r"(?<= for pod two) out of: .*$", ""),
    )
]
_LINES = {
    "descriptions have more fields (port names, optional volumes, application protocols, time zones)": (
        r"describe (?:pod|po/|-f pod|deploy/web svc/web|svc web|sa |daemonset agent|cronjob |flowschema |servicecidr )"
    ),
    "secrets of a diff are masked unless --show-secrets is set": r"diff .*--show-secrets",
    "there is the output format kyaml": r"get .* -o kyaml",
    "api-resources has the formats of get": r"api-resources -o (?:json|yaml|nonsense)",
    "an autoscaler takes --cpu and --memory": r"autoscale .*(?:--cpu=|--memory=|--max=5$)",
    "errors of required flags and of kustomize have a prefix": (
        r"(?:create (?:svc externalname|deployment|cronjob|clusterrolebinding) |scale deployment |autoscale|run( b)?$|"
        r"kustomize (?:broken|nosuch|a b)$)"
    ),
    "removing a label that is not there changes nothing": r"label cm a x-$",
    "errors name the containers of the pod": r"(?:exec|attach) two -c nosuch",
    "debug has no legacy profile": r"get pod (?:two|copy) -o jsonpath=\{\.spec\.(?:ephemeralC|c)ontainers",
    "suggestions for an unknown command end without an empty line": r"(?:gett )?pods$",
    "--list and --output exclude each other": r"(?:annotate|label) .*--list .*-o ",
    "a dash that is not the first word after the pod is an error": r"exec two ls -- pwd",
    "wait takes several conditions": r"wait --for=condition=Available --for=create",
}


def unify(text: str) -> str:
    """Replace the texts that differ between the versions, in the output of either side."""
    for _, pattern, replacement in _TEXTS:
        text = pattern.sub(replacement, text)
    return text


def reason_not_to_compare(line: str) -> str | None:
    """Return why the answer to a line differs between the versions; None for a line whose answer does not."""
    return next((reason for reason, pattern in _LINES.items() if re.match(pattern, line)), None)
