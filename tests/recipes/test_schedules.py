"""Schedules: where they peak, and that their branches meet there."""

import pytest

from regard.recipes.schedules import SCHEDULES, Pace

PACE = Pace(peak=0.5, warmup_steps=40, steps=400, d_model=64)


def test_halving_is_luong_s():
    """Ten epochs of 40 updates: the rate is halved after five, and before each further one."""
    pace = Pace(peak=1.0, warmup_steps=0, steps=400, d_model=64)
    rates = [SCHEDULES["halving"](step, pace) for step in range(1, 401)]
    assert [rates[40 * epoch] for epoch in range(10)] == [1] * 5 + [0.5**n for n in range(1, 6)]
    assert rates[199] == 1
    assert len(set(rates)) == 6
    eight_of_twelve = Pace(
        peak=1.0, warmup_steps=0, steps=120, d_model=64, halve_after=8 / 12, halve_every=1 / 12
    )
    assert [SCHEDULES["halving"](10 * n + 1, eight_of_twelve) for n in range(7, 10)] == [
        1,
        0.5,
        0.25,
    ]


@pytest.mark.parametrize("name", [n for n in SCHEDULES if n != "noam"])
def test_the_peak_is_reached_at_the_end_of_the_warm_up(name):
    rates = [SCHEDULES[name](step, PACE) for step in range(1, 401)]
    assert max(rates) == pytest.approx(0.5)
    assert rates[39] == pytest.approx(0.5)
    assert rates[19] == pytest.approx(0.25)
    assert all(rate >= 0 for rate in rates)


def test_noam_is_the_paper_s():
    base = Pace(peak=1.0, warmup_steps=4000, steps=100_000, d_model=512)
    big = Pace(peak=1.0, warmup_steps=4000, steps=300_000, d_model=1024)
    assert SCHEDULES["noam"](4000, base) == pytest.approx(6.99e-4, rel=1e-3)
    assert SCHEDULES["noam"](4000, big) == pytest.approx(4.94e-4, rel=1e-3)
    assert SCHEDULES["noam"](1, base) == pytest.approx(512**-0.5 * 4000**-1.5)
    assert SCHEDULES["noam"](16000, base) == pytest.approx(512**-0.5 * 16000**-0.5)


def test_cosine_ends_at_nothing():
    assert SCHEDULES["cosine"](400, PACE) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", SCHEDULES)
def test_no_warm_up_divides_by_nothing(name):
    pace = Pace(peak=0.5, warmup_steps=0, steps=10, d_model=64)
    assert SCHEDULES[name](1, pace) > 0
