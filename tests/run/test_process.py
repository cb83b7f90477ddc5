"""What a process is set up with before it trains."""

import torch

from offpiste.config import MachineConfig
from offpiste.run.process import prepare


def test_numbers_too_small_for_a_full_mantissa_count_as_nothing_on_every_thread() -> None:
    small, factor = torch.full((4_000_000,), 2.0**-100), 2.0**-40
    try:
        prepare(MachineConfig(threads=2))
        assert not (small * factor).any()
    finally:
        prepare(MachineConfig())
