"""Devices for claims: the search against brute force, and what the results say."""

from itertools import permutations, product
from typing import Any

import hypothesis
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.resource_v1 import (
    CELDeviceSelector,
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceClaim,
    DeviceClass,
    DeviceConstraint,
    DeviceCounterConsumption,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from sampan.scheduler.devices.allocator import Allocator
from sampan.scheduler.devices.pools import DeviceId, newest
from sampan.scheduler.devices.selectors import Selectors

DRIVER = "gpu.example.com"
CLASS = DeviceClass(metadata=ObjectMeta(name="gpu"))
SELECTORS = Selectors()


def cel(text: str) -> list[DeviceSelector]:
    return [DeviceSelector(cel=CELDeviceSelector(expression=text))]


def device(name: str, model: str = "a", link: int | None = None, **more: Any) -> Device:
    attributes = {"model": DeviceAttribute(string=model)}
    if link is not None:
        attributes["link"] = DeviceAttribute(int=link)
    return Device(name=name, attributes=attributes, **more)


def slice_of(
    devices: list[Device], *, node: str = "n", pool: str = "p", generation: int = 1, count: int = 1, **more: Any
) -> ResourceSlice:
    spec = ResourceSliceSpec(
        driver=DRIVER,
        nodeName=node,
        pool=ResourcePool(name=pool, generation=generation, resourceSliceCount=count),
        devices=devices,
        **more,
    )
    return ResourceSlice(metadata=ObjectMeta(name=f"{pool}-{generation}"), spec=spec)


def exactly(name: str, count: int = 1, **more: Any) -> DeviceRequest:
    return DeviceRequest(
        name=name, exactly=ExactDeviceRequest(deviceClassName="gpu", allocationMode="ExactCount", count=count, **more)
    )


def claim(*requests: DeviceRequest, constraints: list[DeviceConstraint] | None = None) -> ResourceClaim:
    return ResourceClaim(
        metadata=ObjectMeta(name="c", namespace="x", uid="c"),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=list(requests), constraints=constraints or [])),
    )


def allocate(slices: list[ResourceSlice], *claims: ResourceClaim, taken: tuple[str, ...] = (), node: str = "n") -> Any:
    """By claim, the devices by request; None if there are not enough."""
    allocated = frozenset(DeviceId(DRIVER, "p", name) for name in taken)
    made = Allocator(pools=newest(slices), allocated=allocated, find_class={"gpu": CLASS}.get, selectors=SELECTORS)
    found = made.allocate(claims, node, lambda selector: False)
    if found is None:
        return None
    return [[(one.request, one.device) for one in result.devices.results] for result in found]


models = st.sampled_from("ab")
links = st.sampled_from([None, 1, 2])


@hypothesis.settings(max_examples=120, deadline=None)
@given(
    st.lists(st.tuples(models, links, st.booleans()), min_size=1, max_size=5),
    st.lists(st.tuples(st.sampled_from([1, 1, 2]), st.sampled_from(["", "a", "b"])), min_size=1, max_size=3),
    st.sampled_from(["", "match", "distinct"]),
)
def test_against_brute_force(
    found: list[tuple[str, int | None, bool]], wanted: list[tuple[int, str]], rule: str
) -> None:
    devices = [device(f"d{at}", model, link) for at, (model, link, _) in enumerate(found)]
    taken = tuple(f"d{at}" for at, (_, _, is_taken) in enumerate(found) if is_taken)
    requests = []
    for at, (count, model) in enumerate(wanted):
        selectors = cel(f'device.attributes["{DRIVER}"].model == "{model}"') if model else []
        requests.append(exactly(f"r{at}", count, selectors=selectors))
    constraints = []
    if rule:
        name = f"{DRIVER}/link"
        constraints = [
            DeviceConstraint(matchAttribute=name) if rule == "match" else DeviceConstraint(distinctAttribute=name)
        ]
    got = allocate([slice_of(devices)], claim(*requests, constraints=constraints), taken=taken)
    needs = [model for count, model in wanted for _ in range(count)]
    free = [one for one in devices if one.name not in taken]

    def will_do(chosen: tuple[Device, ...]) -> bool:
        if any(model and one.attributes["model"].string != model for one, model in zip(chosen, needs, strict=True)):
            return False
        if not rule:
            return True
        values = [one.attributes["link"].int if "link" in one.attributes else None for one in chosen]
        return None not in values and len(set(values)) == (1 if rule == "match" else len(values))

    possible = [chosen for chosen in permutations(free, len(needs)) if will_do(chosen)]
    assert (got is not None) == bool(possible)
    if got is not None:
        by_name = {one.name: one for one in devices}
        names = [name for _, name in got[0]]
        assert tuple(by_name[name] for name in names) in possible
        assert [request for request, _ in got[0]] == [
            f"r{at}" for at, (count, _) in enumerate(wanted) for _ in range(count)
        ]


def test_two_claims_share_what_there_is() -> None:
    slices = [slice_of([device("d0", "a"), device("d1", "b")])]
    picky = claim(exactly("r", selectors=cel(f'device.attributes["{DRIVER}"].model == "a"')))
    assert allocate(slices, claim(exactly("r")), picky) == [[("r", "d1")], [("r", "d0")]], "a step back is taken"
    assert allocate(slices, claim(exactly("r", 2)), picky) is None


def test_all_and_admins() -> None:
    slices = [slice_of([device("d0"), device("d1")])]
    every = DeviceRequest(name="r", exactly=ExactDeviceRequest(deviceClassName="gpu", allocationMode="All"))
    assert allocate(slices, claim(every)) == [[("r", "d0"), ("r", "d1")]]
    assert allocate(slices, claim(every), taken=("d1",)) is None
    admin = claim(exactly("r", 2, adminAccess=True))
    assert allocate(slices, admin, taken=("d0", "d1")) == [[("r", "d0"), ("r", "d1")]]
    assert allocate([slice_of([device("d0")], count=2)], claim(every)) is None, "a pool that is not all there"


def test_alternatives_in_their_order() -> None:
    def sub(name: str, count: int) -> DeviceSubRequest:
        return DeviceSubRequest(name=name, deviceClassName="gpu", allocationMode="ExactCount", count=count)

    request = DeviceRequest(name="r", firstAvailable=[sub("many", 3), sub("few", 1)])
    devices = [device(f"d{at}") for at in range(3)]
    assert [request for request, _ in allocate([slice_of(devices)], claim(request))[0]] == ["r/many"] * 3
    assert allocate([slice_of(devices)], claim(request), taken=("d0",)) == [[("r/few", "d1")]]


def test_pools_in_their_newest_state_and_on_their_node() -> None:
    old, new = slice_of([device("old")], generation=1), slice_of([device("new")], generation=2)
    assert allocate([old, new], claim(exactly("r"))) == [[("r", "new")]]
    assert allocate([old, new], claim(exactly("r")), node="other") is None
    assert allocate([slice_of([device("d")], count=2)], claim(exactly("r"))) is None


def test_taints() -> None:
    bad = device("d", taints=[DeviceTaint(key="k", value="v", effect="NoSchedule")])
    assert allocate([slice_of([bad])], claim(exactly("r"))) is None
    tolerating = exactly("r", tolerations=[DeviceToleration(key="k", operator="Exists")])
    assert allocate([slice_of([bad])], claim(tolerating)) == [[("r", "d")]]


def test_devices_that_share_counters() -> None:
    def part(name: str, memory: str) -> Device:
        use = DeviceCounterConsumption(counterSet="card", counters={"memory": Counter(value=memory)})
        return device(name, consumesCounters=[use])

    card = CounterSet(name="card", counters={"memory": Counter(value="40Gi")})
    slices = [slice_of([part("whole", "40Gi"), part("half-0", "20Gi"), part("half-1", "20Gi")], sharedCounters=[card])]
    assert allocate(slices, claim(exactly("r", 2))) == [[("r", "half-0"), ("r", "half-1")]]
    assert allocate(slices, claim(exactly("r")), taken=("half-0",)) == [[("r", "half-1")]]
    assert allocate(slices, claim(exactly("r", 3))) is None


def test_nothing_is_given_twice() -> None:
    for first, second in product(range(1, 4), repeat=2):
        slices = [slice_of([device(f"d{at}") for at in range(4)])]
        got = allocate(slices, claim(exactly("r", first)), claim(exactly("r", second)))
        assert (got is not None) == (first + second <= 4)
