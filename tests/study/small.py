"""A study of real but tiny runs, and run folders as training leaves them."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from offpiste.config import RunConfig
from offpiste.store.documents import signed
from offpiste.store.finished import mark_finished
from offpiste.store.identity import about, parse_run
from offpiste.store.storage import Folder
from offpiste.study.plan import Study, make_study

TINY: dict[str, Any] = {
    "games": ["freeway"],
    "methods": ["epsilon_greedy"],
    "seeds": [0, 1, 2],
    "frames": 400,
    "settings": {
        "world": {"episode_frames": 200},
        "agent": {
            "replay_capacity": 80,
            "min_history_steps": 30,
            "target_update_steps": 40,
            "batch_size": 8,
            "convolution_channels": [4, 4, 4],
            "hidden_units": 16,
        },
        "schedule": {"iteration_steps": 40},
        "exploration": {"epsilon_decay_steps": 40},
    },
}
"""Runs of 120 steps: two iterations of one episode of 50 steps each, and 20 steps of a third."""


def tiny_study(**content: Any) -> Study:
    """Return a study of `TINY`, with these keys of its file replaced."""
    return make_study("tiny", TINY | content)


def leave_status(
    folder: Folder, run: RunConfig, state: str, frames: int, seconds_ago: float = 0.0, **more: Any
) -> None:
    """Write the status.json and run.json of a run in this state."""
    at = datetime.now(UTC) - timedelta(seconds=seconds_ago)
    content = {"state": state, "frames": frames, "at": at.isoformat(timespec="seconds"), "note": ""} | more
    stored = about(run) | {"offpiste": "0"}
    folder.put("status.json", json.dumps(signed(content | parse_run(stored).identity)).encode())
    folder.put("run.json", json.dumps(signed(stored)).encode())
    if state == "finished":
        mark_finished(folder, parse_run(stored).identity, frames, "000001-abcdef", frames, {})
