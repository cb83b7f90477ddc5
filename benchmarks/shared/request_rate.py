"""How many requests a run under way makes, by the intervals in the code."""

from offpiste.run.train import STATUS_SECONDS
from offpiste.study.ledger import RENEW_SECONDS
from offpiste.study.worker import STOP_SECONDS


def requests_per_minute() -> float:
    """Return the requests a minute of one run under way in a worker of one slot, between checkpoints."""
    status = 2 * 60 / STATUS_SECONDS  # the attempts listed, and the status written
    return status + 60 / RENEW_SECONDS + 60 / STOP_SECONDS
