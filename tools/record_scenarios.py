#!/usr/bin/env python3
"""Records the responses of a real kube-apiserver to the scenarios in reference/VERSION/recordings.

Scenarios with `controllers: true` need kube-controller-manager. For the others, the server runs without it and without
the ServiceAccount admission plugin. Run it as `.venv/bin/python tools/record_scenarios.py URL TOKEN [NAME...]`; without
names, all scenarios that need no controllers are recorded.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.apiserver.recorded_scenarios import ScenarioClient, ScenarioRun, responses_path, scenario_names

SETTLE_S = 2.5
"""How long the server may take to see policies, webhooks and definitions that were created."""


def main(url: str, token: str, *names: str) -> None:
    client = ScenarioClient(url, token)
    for name in names or scenario_names(with_controllers=False):
        responses = ScenarioRun(client, name, settle=lambda: time.sleep(SETTLE_S)).responses()
        lines = [json.dumps(response, sort_keys=True, ensure_ascii=False) for response in responses]
        responses_path(name).write_text("[\n" + ",\n".join(lines) + "\n]\n")
        print(f"{name}: {len(responses)} steps")


if __name__ == "__main__":
    main(*sys.argv[1:])
