"""The checks of a world, and the report of their results."""

from enum import StrEnum

from offpiste.checks import Report


class Check(StrEnum):
    """What a world promises, in the order of the report."""

    OPENS = "can be opened"
    STEPS = "can be played"
    FRAMES = "frames show what happens"
    EPISODES = "episodes end"
    SEED = "same seed and actions, same frames"
    GENERATORS = "global generators are not drawn from"
    RENDER = "drawing changes nothing"
    APART = "worlds do not share their state"
    RESTORE = "a restored world continues identically"
    PROCESS = "it is the same in a new process"
    POSITION = "positions are true ones"
    RETURNS = "returns are known"
    SPEED = "speed"


class WorldReport(Report[Check]):
    """The results of all checks; `str` of it is what `offpiste check-world` prints."""
