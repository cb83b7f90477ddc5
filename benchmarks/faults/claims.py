"""How fast 512 workers that share nothing but a store divide 1,000 runs, and how many requests that costs.

The claim code of `offpiste study work` runs in threads against a store in this process, each request to which takes
50 ms. Four times: workers that begin within five seconds, as they do; all at the same instant; the same with
shares, as the tasks of a Slurm array have; and with a tenth of the runs begun, which workers prefer. Every run must
have one worker at most, and all workers must be busy within 10 seconds. Then the requests a minute of as many runs
under way, from the intervals in the code, beside those measured before there were marks and leases, when a small object
took three requests.
"""

import argparse
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.shared.request_rate import requests_per_minute
from offpiste.store.storage import Stat
from offpiste.study.claims import Claims
from offpiste.study.marks import Marks
from offpiste.study.plan import make_study
from offpiste.study.worker import START_SECONDS

LATENCY_SECONDS = 0.05
BAR_SECONDS = 10.0
BEFORE_PER_RUN = 20
"""Requests a minute of one run before: status, stop request and superseding attempts, each object three requests."""


@dataclass
class SlowStore:
    """The part of a folder that claims use, in memory, where every request takes a while."""

    objects: dict[str, float] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def below(self, _: str) -> "SlowStore":
        """Return itself: there is one study."""
        return self

    def stat(self, prefix: str = "") -> dict[str, Stat]:
        """Return all objects; at most 1,000 come with one request."""
        with self.lock:
            found = {name: Stat(1, at) for name, at in self.objects.items() if name.startswith(prefix)}
            self.requests["LIST"] += 1 + len(found) // 1_000
        time.sleep(LATENCY_SECONDS * (1 + len(found) // 1_000))
        return found

    def put(self, name: str, _: bytes) -> None:
        """Write an object."""
        self._change("PUT", lambda: self.objects.__setitem__(name, time.time()))

    def delete(self, name: str) -> None:
        """Delete an object."""
        self._change("DELETE", lambda: self.objects.pop(name, None))

    def _change(self, kind: str, change: Callable[[], object]) -> None:
        time.sleep(LATENCY_SECONDS)
        with self.lock:
            self.requests[kind] += 1
            change()


def main() -> int:
    """Simulate and return 0 if all workers are busy in time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="64 workers and 125 runs")
    options = parser.parse_args()
    workers, runs = (64, 125) if options.quick else (512, 1_000)
    good = True
    print(f"{'':<34}{'all busy after':>16}{'claims lost':>13}{'requests':>10}")
    for name, start_seconds, shares, begun in (
        ("begun within five seconds", START_SECONDS, False, 0),
        ("begun at the same instant", 0.0, False, 0),
        ("the same, with shares", 0.0, True, 0),
        ("the same, a tenth of runs begun", 0.0, True, runs // 10),
    ):
        found = simulate(workers, runs, start_seconds, shares=shares, begun=begun)
        print(f"{name:<34}{found.seconds:>14.1f} s{found.lost:>13,}{found.requests:>10,}", flush=True)
        good &= found.seconds <= BAR_SECONDS and found.most_workers == 1 and found.busy == workers
    now = requests_per_minute()
    before = workers * BEFORE_PER_RUN
    print(f"requests a minute for {workers} runs: {workers * now:,.0f} ({now:.1f} a run), before {before:,}")
    print("all busy in time, and no run twice" if good else "FAIL")
    return 0 if good else 1


@dataclass(frozen=True)
class Found:
    """What a simulation showed."""

    seconds: float
    """Until the last worker has a run."""
    busy: int
    lost: int
    most_workers: int
    """Workers of one run, at most."""
    requests: int


def simulate(workers: int, runs: int, start_seconds: float, *, shares: bool, begun: int = 0) -> Found:
    """Let workers claim one run each."""
    study = make_study("claims", {"games": ["deep_sea_4"], "methods": ["epsilon_greedy"], "seeds": list(range(runs))})
    store = SlowStore()
    marks = Marks(store, study)  # type: ignore[arg-type]  # it is all that marks use of a folder
    names = list(marks.keys)
    store.objects |= {f"{marks.keys[name]}.begun": time.time() for name in names[:begun]}
    won: list[str] = []
    lost, ends = Counter[str](), list[float]()
    gate = threading.Barrier(workers + 1)

    def work(index: int) -> None:
        name = f"{random.getrandbits(32):08x}-elsewhere-1-{index}"
        claims = Claims(marks, name, (index, workers) if shares else None)
        gate.wait()
        time.sleep(random.uniform(0.0, start_seconds))  # noqa: S311
        while not (mine := claims.claim(names, 1)):
            lost["claims"] += 1
        won.extend(mine)
        ends.append(time.monotonic())

    threads = [threading.Thread(target=work, args=(index,)) for index in range(workers)]
    for thread in threads:
        thread.start()
    gate.wait()
    begin = time.monotonic()
    for thread in threads:
        thread.join()
    most = max(Counter(won).values())
    return Found(max(ends) - begin, len(won), lost["claims"], most, store.requests.total())


if __name__ == "__main__":
    sys.exit(main())
