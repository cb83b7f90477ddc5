import math

import pytest

from offpiste.bonuses.pseudo_count import intrinsic_of_gain


@pytest.mark.parametrize(
    ("gain", "bonus"),
    [
        (0.4054651, 0.707107),  # ρ from 1/2 to 3/4: N = 2
        (0.1053605, 0.333333),  # from 3/4 to 5/6: N = 9
        (0.6032909, 0.910014),
        (0.0, 0.0),
        (-3.0, 0.0),
        (25.0, 268_337.29),
        (2_653.1925, 268_337.29),
        (math.inf, 268_337.29),
    ],
)
def test_the_bonus_is_one_over_the_root_of_the_pseudo_count(gain: float, bonus: float) -> None:
    assert intrinsic_of_gain(gain) == pytest.approx(bonus, rel=1e-6)


def test_a_pseudo_count_of_n_pays_one_over_its_root() -> None:
    for count in (1, 10, 1_000, 1_000_000):
        assert intrinsic_of_gain(math.log1p(1 / count)) == pytest.approx(count**-0.5)
