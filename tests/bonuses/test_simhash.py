"""SimHash: tests/test_examples.py works its payments out by hand, and shows that the package pays the same."""

from typing import Any

import numpy as np
import pytest

from offpiste.bonuses.base import Context, Transition
from offpiste.bonuses.registry import build, options_of
from offpiste.config import BonusConfig
from offpiste.errors import ConfigError
from offpiste.seeding import stream


def shown(frame: Any) -> Transition:
    return Transition(frame[None], 0, 0.0, frame[None], False, False, 0, np.zeros(128, np.uint8))


@pytest.mark.parametrize("side", [24, 42, 84])
def test_frames_of_any_size_are_counted(side: int) -> None:
    bonus: Any = build(BonusConfig(name="simhash"), Context("deep_sea_5", 2, 1, (side, side), stream(0, "bonus")))
    black, left = np.zeros((2, side, side), np.uint8)
    left[:, : side // 2] = 255
    paid = [bonus.observe(shown(frame)) for frame in (black, left, black, left, black)]
    assert paid == pytest.approx([1.0, 1.0, 2**-0.5, 2**-0.5, 3**-0.5])


def test_a_code_without_bits_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"bonus.options.bits must be >= 1, got 0"):
        options_of(BonusConfig(name="simhash", options={"bits": 0}))
