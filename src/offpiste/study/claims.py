"""Claims: how workers that share nothing but the store divide the runs of a study.

A worker lists the marks, writes a lease for a run that is neither done nor quarantined nor leased, waits until leases
of others who did the same are visible, and lists again. If there are several, the worker with the lowest id has won and
the others delete theirs. A lease that is not renewed for five minutes by the store's clock, or whose worker has ended
on this machine, is void.

Strict exclusion is not needed: if two workers do claim one run, the newer attempt wins and the older stops
(`offpiste.store.checkpoints`). Hence an object store needs no conditional writes.
"""

import functools
import hashlib
import itertools
import os
import random
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

from offpiste.study.marks import Listing, Marks

LEASE_SECONDS = 300.0
"""Age at which a lease is void."""
SETTLE_SECONDS = 2.0
"""How long to wait between writing leases and looking who else did."""


class Claims:
    """The leases of one worker."""

    def __init__(
        self, marks: Marks, worker: str, index_and_count: tuple[int, int] | None = None, *, in_order: bool = False
    ) -> None:
        """Claim for this worker: first those of its share, if it knows that, and among them those that were begun.

        Otherwise they are chosen at random, since workers that begin at the same moment would all claim the first; a
        worker that is alone may ask for runs in the order given.
        """
        self.worker = worker
        self.seen = Listing()
        """The marks as last listed."""
        self._marks = marks
        index, count = index_and_count or (0, 1)
        self._share = set(sorted(marks.keys, key=marks.keys.__getitem__)[index::count])
        """Its runs in the order of keys, by which all workers divide them alike."""
        self._in_order = in_order
        self._clock_offset = 0.0
        """Seconds by which the store's clock is ahead of this machine's, as far as leases have shown."""

    def claim(self, wanted: Sequence[str], count: int) -> list[str]:
        """Return up to `count` of these runs, leased to this worker; none if all are done or leased to others."""
        chosen = self.propose(wanted, count)
        if chosen:
            time.sleep(SETTLE_SECONDS)
        return self.decide(chosen)

    def propose(self, wanted: Sequence[str], count: int) -> list[str]:
        """Write leases for up to `count` of these runs and return them, to be decided after SETTLE_SECONDS."""
        self._look()
        chosen = list(itertools.islice(filter(self.is_free, self._ordered(wanted)), count))
        for run_id in chosen:
            self.renew(run_id)
        return chosen

    def decide(self, chosen: Sequence[str]) -> list[str]:
        """Return those of the proposed runs that this worker has won; the leases of the others are deleted."""
        if not chosen:
            return []
        self._look()
        won = [run_id for run_id in chosen if self._wins(run_id)]
        for run_id in set(chosen) - set(won):
            self.release(run_id)
        return won

    def is_free(self, run_id: str) -> bool:
        """Return whether a run was neither done nor quarantined nor leased when the marks were listed."""
        marks, seen = self._marks, self.seen
        if marks.done_at(run_id, seen) is not None or marks.is_quarantined(run_id, seen):
            return False
        leased = marks.keys[run_id] in seen.leases
        return not leased or not self._rivals(run_id, time.time() + self._clock_offset)

    def void_leases(self, run_id: str) -> set[str]:
        """Return the other workers with a void lease of a run: they vanished in the middle of it."""
        leases = self.seen.leases.get(self._marks.keys[run_id], {})
        return leases.keys() - {self.worker} - self._rivals(run_id, time.time() + self._clock_offset).keys()

    def renew(self, run_id: str) -> None:
        """Write or renew the lease of a run."""
        self._marks.put_lease(run_id, self.worker)

    def release(self, run_id: str) -> None:
        """Delete the lease of a run."""
        self._marks.delete_lease(run_id, self.worker)

    def delete_void_leases(self, run_id: str) -> None:
        """Delete what vanished workers left of a run that this worker has claimed."""
        for worker in self.void_leases(run_id):
            self._marks.delete_lease(run_id, worker)

    def _look(self) -> None:
        self.seen = self._marks.read()
        newest = max((at for leases in self.seen.leases.values() for at in leases.values()), default=0.0)
        self._clock_offset = max(self._clock_offset, newest - time.time())

    def _wins(self, run_id: str) -> bool:
        mine = self.seen.leases.get(self._marks.keys[run_id], {}).get(self.worker)
        if mine is None or self._marks.done_at(run_id, self.seen) is not None:
            return False
        self._clock_offset = mine + SETTLE_SECONDS - time.time()
        rivals = self._rivals(run_id, mine)
        # One whose lease is older than the wait has looked already, seen nobody, and begun.
        return all(self.worker < rival and mine - at <= SETTLE_SECONDS for rival, at in rivals.items())

    def _rivals(self, run_id: str, now: float) -> dict[str, float]:
        """Return the other workers with a valid lease of a run, and when they wrote it."""
        leases = self.seen.leases.get(self._marks.keys[run_id], {})
        return {
            worker: at
            for worker, at in leases.items()
            if worker != self.worker and now - at < LEASE_SECONDS and not has_ended(worker)
        }

    def _ordered(self, wanted: Sequence[str]) -> Sequence[str]:
        if self._in_order:
            return wanted
        share, begun, keys = self._share, self.seen.begun, self._marks.keys
        return sorted(wanted, key=lambda run: (run not in share, keys[run] not in begun, random.random()))  # noqa: S311


def new_worker_id() -> str:
    """Return an id for this process, from which others on this machine can see whether it still runs."""
    pid = os.getpid()
    return f"{secrets.token_hex(4)}-{_machine()}-{pid}-{_start_time(pid)}"


def has_ended(worker: str) -> bool:
    """Return whether a worker ran on this machine and has ended; False for one on another machine."""
    parts = worker.split("-")
    if len(parts) != 4 or parts[1] != _machine() or not parts[2].isdecimal():
        return False
    return _start_time(int(parts[2])) != parts[3]


@functools.cache
def _machine() -> str:
    """Return a name for this machine since it was started; containers that do not share process ids differ."""
    name = Path("/proc/sys/kernel/random/boot_id").read_bytes() + str(Path("/proc/self/ns/pid").readlink()).encode()
    return hashlib.blake2b(name, digest_size=4).hexdigest()


def _start_time(pid: int) -> str:
    """Return when a process began, in ticks since the machine was started; "" if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
