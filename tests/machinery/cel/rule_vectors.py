"""The recorded responses of the real implementation to questions about rules (`vectors/rule_answers.json`).

`python -m tests.machinery.cel.rule_vectors` asks the oracle again and writes the file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.machinery.cel.oracle_program import PROGRAM, Oracle, running_oracle

HERE = Path(__file__).parent / "vectors"
RESPONSES_FILE = HERE / "rule_answers.json"
SCHEMA: dict[str, Any] = json.loads((HERE / "schema.json").read_text())
VALUE: dict[str, Any] = json.loads((HERE / "value.json").read_text())
RULES = [line for line in (HERE / "rules.txt").read_text().splitlines() if line]
SCHEMAS: dict[str, Any] = json.loads((HERE / "schemas.json").read_text())
"""Schemas of whole definitions by name, some with rules that are too costly."""
DEVIATING_COSTS = frozenset((HERE / "deviating_costs.txt").read_text().splitlines())
"""Rules whose evaluations are not charged exactly as by the real implementation."""


def read_answers() -> dict[str, Any]:
    responses: dict[str, Any] = json.loads(RESPONSES_FILE.read_text())
    return responses


def question(rules: list[str]) -> dict[str, Any]:
    sources = [{"rule": rule} for rule in rules]
    schema = {**SCHEMA, "x-kubernetes-validations": sources}
    return {"schema": schema, "values": [{"self": VALUE, "oldSelf": VALUE}]}


def ask(oracle: Oracle) -> dict[str, Any]:
    from tests.machinery.cel.rule_answers import definition

    response = oracle.ask(question(RULES))
    causes = {
        name: oracle.ask({"definition": definition(schema)}).get("causes", []) for name, schema in SCHEMAS.items()
    }
    rules = dict(zip(RULES, response.pop("rules"), strict=True))
    return {**response, "rules": rules, "causes": causes}


def main() -> None:
    with running_oracle(PROGRAM.build_or_skip()) as oracle:
        responses = ask(oracle)
    RESPONSES_FILE.write_text(json.dumps(responses, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
