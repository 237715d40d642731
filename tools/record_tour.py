"""Record the tour of the README: runs its commands in a new cluster and writes docs/images/tour.svg.

Every line of the picture is real output, which appears at the time at which it was printed. The commands need kubectl
on PATH and no root.
"""

import os
import subprocess
import sys
import tempfile
import time
from html import escape
from pathlib import Path

OUTPUT = Path(__file__).resolve().parent.parent / "docs/images/tour.svg"
BIG = '{"spec":{"containers":[{"name":"big","image":"big","resources":{"requests":{"cpu":"64"}}}]}}'
TOUR = [
    "sampan up --detach --runtime hollow --nodes 3",
    "kubectl create deployment web --image=nginx --replicas=3",
    "kubectl rollout status deployment/web",
    "kubectl get pods -o wide",
    f"kubectl run big --image=big --overrides '{BIG}'",
    "kubectl wait --for=condition=PodScheduled=false pod/big",
    "sampan why pod/big",
    "sampan down --delete",
]
HIDDEN = ("kubectl rollout status", "kubectl wait")
"""Commands that the tour waits for and does not show."""

COLUMNS, LINE, CHARACTER = 104, 19, 7.8
NO_BREAK_SPACE = chr(160)
"""A space that no SVG renderer folds."""
TYPING_S, PAUSE_S = 0.9, 0.6
"""How long a command seems to be typed, and the pause after its output."""
_STYLE = """
    .screen { fill: #14202b; }
    text { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 13px; fill: #d5dfe8; white-space: pre; }
    .command { fill: #7fd1e3; }
    g { opacity: 0; animation: show 0.01s linear forwards; }
    @keyframes show { to { opacity: 1; } }
    @media print { g { opacity: 1; animation: none; } }
"""


def record() -> list[tuple[float, str, bool]]:
    """Run the commands. Return lines with the time at which each appears, and whether it is a command."""
    lines, now = [], 0.5
    with tempfile.TemporaryDirectory(prefix="sampan-tour-") as home:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        kubeconfig = f"{home}/sampan/sampan/admin.kubeconfig"
        environment = os.environ | {"PATH": path, "XDG_DATA_HOME": home, "KUBECONFIG": kubeconfig}
        for command in TOUR:
            start = time.monotonic()
            done = subprocess.run(command, shell=True, env=environment, capture_output=True, text=True, check=True)
            took_s = time.monotonic() - start
            if command.startswith(HIDDEN):
                continue
            lines.append((now, f"$ {command}", True))
            now += TYPING_S + min(took_s, 3)
            for line in done.stdout.rstrip().splitlines():
                lines.append((now, line.replace(home, "~/.local/share"), False))
            now += PAUSE_S
    return lines


def wrapped(lines: list[tuple[float, str, bool]]) -> list[tuple[float, str, bool]]:
    """Fold commands and cut output at the width of the screen."""
    shown = []
    for appears_s, text, is_command in lines:
        if is_command:
            parts = [text[start : start + COLUMNS] for start in range(0, len(text), COLUMNS)]
        else:
            parts = [text if len(text) <= COLUMNS else f"{text[: COLUMNS - 1]}…"]
        shown += [(appears_s, part, is_command) for part in parts]
    return shown


def picture(lines: list[tuple[float, str, bool]]) -> str:
    width, height = round(COLUMNS * CHARACTER) + 40, len(lines) * LINE + 36
    rows = [
        f'  <g style="animation-delay: {appears_s:.1f}s"><text class="{"command" if is_command else "output"}" x="20"'
        f' y="{28 + number * LINE}">{escape(text).replace(" ", NO_BREAK_SPACE)}</text></g>'
        for number, (appears_s, text, is_command) in enumerate(lines)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="t">',
            '  <title id="t">A cluster with three hollow nodes is started, used, questioned and removed</title>',
            f"  <style>{_STYLE}  </style>",
            f'  <rect class="screen" width="{width}" height="{height}" rx="10"/>',
            *rows,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    OUTPUT.write_text(picture(wrapped(record())))
    sys.stdout.write(f"written: {OUTPUT}\n")
