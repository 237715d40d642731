"""Two ways to score nodes on the same 1,000 nodes and 6,000 pods: spreading and packing. The same seed, the same table.

python compare.py [SEED]
"""

import random
import statistics
import sys

from sampan.api.types.core_v1 import Container, Node, NodeStatus, Pod, PodSpec, ResourceRequirements
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.scheduler.config import ProfileConfig
from sampan.scheduler.simulation import Simulation

SIZES = [("4", "16Gi"), ("8", "32Gi"), ("16", "64Gi")]
SHAPES = [("250m", "256Mi"), ("500m", "2Gi"), ("1", "1Gi"), ("2", "8Gi")]
STRATEGIES = ("LeastAllocated", "MostAllocated")


def node(number: int, dice: random.Random) -> Node:
    cpu, memory = dice.choice(SIZES)
    there = {"cpu": cpu, "memory": memory, "pods": "110"}
    return Node(metadata=ObjectMeta(name=f"node-{number}"), status=NodeStatus(allocatable=there))


def pod(number: int, dice: random.Random) -> Pod:
    cpu, memory = dice.choices(SHAPES, weights=(8, 4, 3, 1))[0]
    main = Container(name="main", resources=ResourceRequirements(requests={"cpu": cpu, "memory": memory}))
    meta = ObjectMeta(name=f"pod-{number}", namespace="default", uid=f"uid-{number}")
    return Pod(metadata=meta, spec=PodSpec(containers=[main]))


def simulate(strategy: str, seed: int, nodes: int = 1000, pods: int = 6000) -> list[str]:
    """A row of the table."""
    dice = random.Random(seed)
    profile = ProfileConfig(args={"NodeResourcesFit": {"scoringStrategy": {"type": strategy}}})
    simulation = Simulation(profile=profile, seed=seed)
    for number in range(nodes):
        simulation.add_node(node(number, dice))
    placed = [simulation.schedule(pod(number, dice)) for number in range(pods)]
    table = simulation.table
    shares = (table.requested[0, :nodes] / table.allocatable[0, :nodes]).tolist()
    used = [share for share in shares if share]
    figures = (placed.count(""), nodes - len(used), 100 * statistics.mean(used), 100 * statistics.pstdev(shares))
    return [strategy, *(f"{figure:.0f}" for figure in figures), f"{100 * max(shares):.0f}"]


def table(seed: int, nodes: int = 1000, pods: int = 6000) -> list[str]:
    rows = [["strategy", "unplaced", "empty nodes", "cpu % of used", "deviation", "fullest"]]
    rows += [simulate(strategy, seed, nodes, pods) for strategy in STRATEGIES]
    return ["  ".join(cell.rjust(14) for cell in row) for row in rows]


if __name__ == "__main__":
    print("\n".join(table(int(sys.argv[1]) if len(sys.argv) > 1 else 1)))
