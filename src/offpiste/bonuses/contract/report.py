"""The checks of a bonus, and the report of their results."""

from enum import StrEnum

from offpiste.checks import Report


class Check(StrEnum):
    """What a bonus promises, in the order of the report."""

    OPTIONS = "options are a frozen dataclass"
    MAKING = "can be made"
    NUMBER = "observe returns a number"
    FINITE = "bonuses are finite"
    SIGN = "bonuses are not negative"
    SEED = "same seed, same bonuses"
    STATE = "state can be saved"
    RESUME = "a restored bonus continues identically"
    INPUTS = "inputs are not changed"
    GENERATORS = "global generators are not drawn from"
    LEARN = "learns from a batch"
    SCALARS = "scalars are finite and change nothing"
    SCORE = "scores steps of the replay as it pays for them"
    VISITS = "falls as a frame is visited again"
    SCOPE = "scope is as declared"
    PAYS_FOR = "pays for the state that it declares"
    SMALL = "works on small frames, one a state"
    COST = "cost"


class CheckReport(Report[Check]):
    """The results of all checks; `str` of it is what `offpiste check-bonus` prints."""
