import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offpiste.agent.mixing import clip_extrinsic, is_clipped, mix
from offpiste.config import BonusConfig

QUARTERS = st.integers(-40, 40).map(lambda quarters: quarters / 4)
"""Exact in both float32 and float64."""


@given(reward=QUARTERS, bonus=QUARTERS, clip_sum=st.booleans())
def test_a_sum_counts_as_clipped_where_mixing_changes_it(reward: float, bonus: float, clip_sum: bool) -> None:
    config = BonusConfig(scale=0.5, clip_sum=clip_sum)
    extrinsic = clip_extrinsic(reward)
    [mixed] = mix(np.array([extrinsic], np.float32), np.array([bonus], np.float32), config)
    assert is_clipped(extrinsic, bonus, config) == (mixed != extrinsic + 0.5 * bonus)
