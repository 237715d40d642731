"""Parts of steps: collection across calls, text form, and limit."""

import asyncio

import pytest

from sampan.machinery.telemetry.flight_recorder import StepParts, collect_parts, current_parts, parse_parts, step_part


async def test_parts_are_collected_across_calls() -> None:
    async def deep() -> None:
        with step_part("network"):
            await asyncio.sleep(0)

    with collect_parts() as parts:
        await deep()
        with pytest.raises(RuntimeError), step_part("broken"):
            raise RuntimeError
    assert [name for name, _, _ in parse_parts(str(parts))] == ["network", "broken"]
    assert current_parts() is None
    await deep()  # no collection is active


async def test_tasks_collect_their_parts_separately() -> None:
    with collect_parts() as parts:
        await asyncio.create_task(_collect_elsewhere())
    assert str(parts) == ""


async def _collect_elsewhere() -> None:
    with collect_parts(), step_part("elsewhere"):
        pass


def test_text_of_parts_is_parsed_back() -> None:
    parts = StepParts()
    began = parts._began
    parts.add("webhook a.example.com", began + 0.001, began + 0.003)
    assert str(parts) == "webhook a.example.com=1000+2000"
    assert list(parse_parts(str(parts))) == [("webhook a.example.com", 0.001, 0.002)]
    assert list(parse_parts("wait in the queue=-5000+5000")) == [("wait in the queue", -0.005, 0.005)]


@pytest.mark.parametrize("text", ["", ";", "a", "a=", "a=1", "a=1+", "a=x+1", "=1+1", "a=--1+1", "a=1+-1"])
def test_malformed_parts_are_left_out(text: str) -> None:
    assert list(parse_parts(text)) == []


def test_the_number_of_parts_is_bounded() -> None:
    parts = StepParts()
    for number in range(1000):
        parts.add(str(number), 0.0, 0.0)
    assert len(list(parse_parts(str(parts)))) == 64
