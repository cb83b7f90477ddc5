"""How many requests a run under way makes, by the intervals in the code."""

from offpiste.run.train import STATUS_SECONDS
from offpiste.study.driver import LOOK_SECONDS
from offpiste.study.task import STOP_SECONDS


def requests_per_minute() -> float:
    """Return the requests a minute of one run under way, between checkpoints: on Ray, which makes the most of them.

    A driver with processes of its own reads no status to see whether a run is hung, and looks for a request to stop
    once for all its runs.
    """
    status = 2 * 60 / STATUS_SECONDS  # the attempts listed, and the status written
    return status + 60 / STOP_SECONDS + 60 / LOOK_SECONDS
