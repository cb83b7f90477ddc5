"""How a worker of `peers` talks: it says when it is warm, then what each block of agent steps took.

One line in, the number of agent steps; one line out, seconds, processor seconds and updates. In between it waits for
input and so uses no processor. Only the standard library: every worker runs in an environment of its own.
"""

import sys
import time
from collections.abc import Callable

MARK = "worker:"
"""Opens every answer, because libraries print too."""
LEARNED_STEPS = 40
"""Agent steps with updates before a worker calls itself warm; compilation happens there."""


def serve(play: Callable[[int], None], updates: Callable[[], int], history_steps: int) -> None:
    """Fill the replay, learn a little, then play as many agent steps as each line asks for."""
    play(history_steps + LEARNED_STEPS)
    print(MARK, "warm", flush=True)
    for line in sys.stdin:
        before = updates()
        start, processor_start = time.perf_counter(), time.process_time()
        play(int(line))
        seconds, processor_seconds = time.perf_counter() - start, time.process_time() - processor_start
        print(MARK, seconds, processor_seconds, updates() - before, flush=True)
