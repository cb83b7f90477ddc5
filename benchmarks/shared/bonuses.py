"""The bonuses of the table of methods, made outside a run, for programs that show them frames themselves."""

from offpiste.bonuses.base import Bonus, Context, Sample, no_replay
from offpiste.bonuses.registry import build
from offpiste.config import WorldConfig
from offpiste.methods import METHODS
from offpiste.seeding import stream

BONUSES = tuple(name for name, row in METHODS.items() if row.bonus_class)
ACTIONS = 18
STACK = WorldConfig().stack_frames
FRAME_SHAPE = WorldConfig().state_shape[1:]


def make_bonus(name: str, game: str, sample: Sample = no_replay) -> Bonus:
    """Return a bonus with the constants of its method, before its first step, for a game with all 18 actions.

    It pays at once, without a warm-up.
    """
    context = Context(game, ACTIONS, STACK, FRAME_SHAPE, stream(0, "bonus"), min_history_steps=0, sample=sample)
    bonus = build(METHODS[name].bonus, context)
    assert bonus is not None
    return bonus
