import pytest

from sampan.runtimes.cpu_rates import CpuRates


def test_the_rate_is_that_of_the_time_since_the_last_sample() -> None:
    rates = CpuRates()
    assert rates.rate("a", 5.0, 100.0) == 0
    assert rates.rate("a", 6.0, 110.0) == pytest.approx(0.1)
    assert rates.rate("a", 16.0, 115.0) == pytest.approx(2.0)


def test_two_samples_in_quick_succession_do_not_show_a_tick_as_many_cores() -> None:
    rates = CpuRates()
    rates.rate("a", 5.0, 100.0)
    rates.rate("a", 6.0, 110.0)
    assert rates.rate("a", 6.01, 110.0001) == pytest.approx(0.1)
    assert rates.rate("a", 6.5, 111.0) == pytest.approx(0.5)


def test_a_clock_that_is_set_back_keeps_the_rate_and_counts_from_there() -> None:
    rates = CpuRates()
    rates.rate("a", 5.0, 100.0)
    rates.rate("a", 6.0, 110.0)
    assert rates.rate("a", 7.0, 50.0) == pytest.approx(0.1)
    assert rates.rate("a", 8.0, 52.0) == pytest.approx(0.5)


def test_a_restarted_container_starts_at_zero() -> None:
    rates = CpuRates()
    rates.rate("a", 5.0, 100.0)
    assert rates.rate("a", 1.0, 110.0) == 0
