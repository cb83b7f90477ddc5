"""What a world promises, as a function that anyone can run: `check_world("module:World")` reports what is wrong.

The contract is the list `_CHECKS`. Each check plays the world at random, returns what it measured or raises `Failed` or
`Skipped`; the checks after it are made all the same. Global generators are seeded for each course and restored after
it, so that drawing from them is one fault, and does not fail every check of reproducibility.
"""

import json
import os
import random
import subprocess
import sys
import time
import traceback
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from offpiste.checks import Failed, Result, Skipped
from offpiste.config import RunConfig, WorldConfig
from offpiste.errors import CheckpointError, OffpisteError
from offpiste.parsing import from_dict
from offpiste.seeding import stream
from offpiste.worlds.base import World
from offpiste.worlds.contract_report import Check, WorldReport
from offpiste.worlds.registry import load, location, open_world
from offpiste.worlds.scores import reference_scores

STEPS, MIN_STEPS = 500, 50
"""Of random play in each check; as few as the second number where a world is slow."""
SECONDS = 2.0
"""Of random play in each check, about."""
MOMENTS = 6
"""At which a world is saved and restored."""
MIN_STEPS_PER_SECOND = 30.0
"""Of processor time; a run of 100,000 steps would take an hour in the world alone."""
MIN_EPISODES = 10
"""Of a run, as many as there are if all of them last up to the limit."""
HASH_SEEDS = ("1", "2")
"""The new process takes the one that this process does not have."""


class Played(NamedTuple):
    """What one step showed."""

    frame: int
    """A hash of its state."""
    reward: float
    terminated: bool
    truncated: bool


class Specimen:
    """A world under test."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.drew_from: set[str] = set()
        """The libraries from whose global generators the world drew."""

    @cached_property
    def config(self) -> WorldConfig:
        """Its own settings."""
        return from_dict(WorldConfig, load(self.name).settings.get("world", {}))

    @cached_property
    def actions(self) -> list[int]:
        """Random actions, fewer where the world is slow."""
        world = self.open()
        actions = _random_actions(world, STEPS)
        with self.watched():
            start = time.process_time()
            for _ in _play(world, actions[:20]):
                pass
        wanted = int(SECONDS * 20 / max(time.process_time() - start, 1e-6))
        return actions[: max(MIN_STEPS, min(wanted, STEPS))]

    @cached_property
    def played(self) -> list[Played]:
        """Random play from the seed 0."""
        with self.watched():
            return [*_play(self.open(), self.actions)]

    @cached_property
    def reproducible(self) -> bool:
        """Whether the same seed gives the same frames."""
        with self.watched():
            return [*_play(self.open(), self.actions)] == self.played

    @cached_property
    def changed_by_drawing(self) -> int:
        """The step, from 1, from which it takes another course if it is drawn once more at each; 0 if it does not."""
        with self.watched():
            world = self.open()
            return _difference([one for one in _play(world, self.actions) if world.render() is not None], self.played)

    def open(self, seed: int = 0) -> World:
        """Open the world, with its randomness from a seed."""
        return open_world(self.name, self.config, stream(seed, "check world"), 0)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note whether the block draws from global generators, and restore them."""
        before: tuple[Any, ...] = (random.getstate(), np.random.get_state())  # noqa: NPY002
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        seeded: tuple[Any, ...] = (random.getstate(), np.random.get_state())  # noqa: NPY002
        try:
            yield
        finally:
            if random.getstate() != seeded[0]:
                self.drew_from.add("Python")
            if not all(np.array_equal(now, then) for now, then in zip(np.random.get_state(), seeded[1], strict=True)):  # noqa: NPY002
                self.drew_from.add("numpy")
            random.setstate(before[0])
            np.random.set_state(before[1])  # noqa: NPY002


def check_world(name: str, progress: Callable[[float], None] | None = None) -> WorldReport:
    """Check a world by its name; `progress` is called with the share that is done.

    The checks continue after a failure, and an exception inside the world is a failure like any other.
    """
    specimen, results, stopped = Specimen(name), [], ""
    for number, (check, judge) in enumerate(_CHECKS.items()):
        if progress is not None:
            progress(number / len(_CHECKS))
        try:
            if stopped:
                raise Skipped(f"not reached, since {stopped}")
            results.append(Result(check, "ok", judge(specimen)))
        except Skipped as skipped:
            results.append(Result(check, "skipped", str(skipped)))
        except Exception as error:
            results.append(Result(check, "FAILED", _explained(error)))
            stopped = stopped or _STOPS.get(check, "")
    if progress is not None:
        progress(1.0)
    return WorldReport(name, tuple(results))


def _opens(specimen: Specimen) -> str:
    with specimen.watched():
        world = specimen.open()
    stack, height, width = world.state_shape
    frames = "1 frame" if stack == 1 else f"{stack} frames"
    return f"{world.action_count} actions; a state is {frames} of {height} × {width} pixels"


def _steps(specimen: Specimen) -> str:
    try:
        played = specimen.played
    except OffpisteError:
        raise
    except Exception as error:
        if not _is_ours(_origin(error)):
            raise
        raise Failed(
            f"{_explained(error)}; reset(seed=None, options=None) returns an observation and a dictionary, step an "
            "observation, a reward, whether the episode terminated, whether it was truncated, and a dictionary"
        ) from error
    for step, one in enumerate(played, 1):
        if not np.isfinite(one.reward):
            raise Failed(f"the reward must be a finite number, got {one.reward} at step {step:,}")
    ends = sum(one.terminated or one.truncated for one in played)
    return f"{len(played):,} steps, {ends} episodes ended, {sum(one.reward != 0 for one in played)} rewards"


def _frames(specimen: Specimen) -> str:
    different = len({one.frame for one in specimen.played})
    if different == 1:
        raise Failed(
            f"all frames of {len(specimen.played):,} random steps are the same; draw the state, with differences that "
            f"are left in grey at {specimen.config.frame_size} × {specimen.config.frame_size} pixels "
            "(world.frame_size)"
        )
    with specimen.watched():
        world = specimen.open()
        others = [*_play(world, [(action + 1) % world.action_count for action in specimen.actions])]
    if [one.frame for one in others] == [one.frame for one in specimen.played]:
        raise Failed(
            f"other actions showed the same frames in {len(others):,} steps; draw what actions change, as where the "
            "player is, in a grey that differs from what is around it"
        )
    return f"{different} different ones in {len(specimen.played):,} steps"


def _episodes(specimen: Specimen) -> str:
    ends = [step for step, one in enumerate(specimen.played, 1) if one.terminated or one.truncated]
    if ends:
        return f"one every {ends[-1] / len(ends):,.0f} random steps"
    skip = specimen.config.frame_skip
    limit = getattr(specimen.open(), "max_steps", specimen.config.episode_frames // skip)
    steps = load(specimen.name).settings.get("frames", RunConfig().frames) // skip
    if limit > steps / MIN_EPISODES:
        raise Failed(
            f"none ended in {len(specimen.played):,} random steps, and the limit is {limit:,} steps in runs of "
            f"{steps:,}, whose curves are drawn from episodes that ended; return truncated = True after fewer steps, "
            "register it with max_episode_steps, or set world.episode_frames"
        )
    return f"none ended in {len(specimen.played):,} random steps; the limit is {limit:,} steps"


def _seed(specimen: Specimen) -> str:
    if not specimen.reproducible:
        raise Failed(
            "two worlds with the same seed and actions showed different frames, rewards or ends; call "
            "super().reset(seed=seed) in reset, and draw from self.np_random only"
        )
    return ""


def _render(specimen: Specimen) -> str:
    _only_if_reproducible(specimen)
    if step := specimen.changed_by_drawing:
        raise Failed(
            f"it took another course at step {step:,} where it was drawn once more at each step; render() must change "
            "nothing and draw no random numbers"
        )
    return ""


def _apart(specimen: Specimen) -> str:
    _only_if_reproducible(specimen)
    with specimen.watched():
        plays = (_play(specimen.open(seed), specimen.actions) for seed in (0, 1))
        taken = [one for one, _ in zip(*plays, strict=True)]
    if step := _difference(taken, specimen.played):
        raise Failed(
            f"it took another course at step {step:,} while a second one was played in turns, as one is for "
            "evaluation; keep what changes in self, not in its class or its module"
        )
    return ""


def _restore(specimen: Specimen) -> str:
    _only_if_reproducible(specimen)
    if specimen.changed_by_drawing:
        raise Skipped("drawing changes it")
    with specimen.watched():
        if step := _difference([*_play_saving(specimen)], specimen.played):
            raise Failed(f"it took another course at step {step:,} where it was saved; snapshot() must change nothing")
        for moment, snapshot in [*_saved(specimen)]:  # first all, for a world that another one disturbs
            world = specimen.open(seed=1)
            try:
                world.restore(snapshot)
            except CheckpointError:
                shown = f"saved after step {moment:,}, it showed another frame when it was restored"
                raise Failed(f"{shown}; {_advice(world)}") from None
            rest = specimen.actions[moment:]
            again = [*_play(world, rest, between_episodes=_ended(specimen, moment))]
            if step := _difference(again, specimen.played[moment:]):
                shown = f"restored after step {moment:,}, it took another course at step {moment + step:,}"
                raise Failed(f"{shown}; {_advice(world)}")
    return "by its own snapshot()" if getattr(world, "can_snapshot", False) else ""


def _process(specimen: Specimen) -> str:
    _only_if_reproducible(specimen)
    other_hashes = next(seed for seed in HASH_SEEDS if seed != os.environ.get("PYTHONHASHSEED"))
    path = os.pathsep.join(filter(None, sys.path))
    ended = subprocess.run(
        [sys.executable, "-P", "-m", __name__, specimen.name, str(len(specimen.actions))],
        env=os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": other_hashes},
        capture_output=True,
        check=False,
    )
    lines = ended.stdout.decode(errors="replace").splitlines()
    if ended.returncode:
        last = ended.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise Failed(f"a new process ended with code {ended.returncode}: {''.join(last)}")
    if step := _difference([Played(*values) for values in json.loads(lines[-1])], specimen.played):
        raise Failed(
            f"in a new process it took another course at step {step:,}; hash() of text, id() and the order of sets "
            "change from process to process: sort, and draw from self.np_random"
        )
    return ""


def _generators(specimen: Specimen) -> str:
    if specimen.drew_from:
        raise Failed(
            f"it drew from the global generator of {' and '.join(sorted(specimen.drew_from))}; draw from "
            "self.np_random, which reset(seed=seed) seeds"
        )
    return ""


def _position(specimen: Specimen) -> str:
    found = location(specimen.name)
    if found is None:
        raise Skipped("it has none; with a method position(), which returns row and column, oracles and maps know it")
    _only_if_reproducible(specimen)
    with specimen.watched():
        world = specimen.open()
        seen = [found.locate(world.ram)[1] for _ in _play(world, specimen.actions)]
    if len({*seen}) == 1:
        raise Failed(f"position() was the same in all of {len(seen):,} steps; return where the player is now")
    try:
        again = {moment: found.locate(world.ram)[1] for moment, world in _restored(specimen)}
    except Exception as error:
        raise Skipped("it cannot be restored") from error
    for moment, cell in again.items():
        if cell != seen[moment - 1]:
            raise Failed(f"restored after step {moment:,}, position() was another; compute it from the state")
    return f"{len({*seen})} different ones in {len(seen):,} steps"


def _returns(specimen: Specimen) -> str:
    scale = reference_scores(specimen.name)
    if not scale.known:
        raise Skipped("reports show raw returns; declare `returns = (mean of random play, best)` in its class")
    return f"{scale.random:g} of random play, {scale.top:g} of {scale.player}"


def _speed(specimen: Specimen) -> str:
    with specimen.watched():
        world = specimen.open()
        start = time.process_time()
        steps = sum(1 for _ in _play(world, specimen.actions))
    rate = steps / max(time.process_time() - start, 1e-6)
    if rate < MIN_STEPS_PER_SECOND:
        raise Failed(
            f"{rate:,.0f} steps a second, so {100_000 / rate / 3600:,.1f} hours of a run of 100,000 steps; draw frames "
            f"near {specimen.config.frame_size} pixels yourself, as observations of uint8, instead of larger ones"
        )
    return f"{rate:,.0f} steps a second"


_CHECKS: Mapping[Check, Callable[[Specimen], str]] = {
    Check.OPENS: _opens,
    Check.STEPS: _steps,
    Check.FRAMES: _frames,
    Check.EPISODES: _episodes,
    Check.SEED: _seed,
    Check.GENERATORS: _generators,
    Check.RENDER: _render,
    Check.APART: _apart,
    Check.RESTORE: _restore,
    Check.PROCESS: _process,
    Check.POSITION: _position,
    Check.RETURNS: _returns,
    Check.SPEED: _speed,
}
_STOPS = {Check.OPENS: "it cannot be opened", Check.STEPS: "it cannot be played"}
"""Checks without which no further one is possible, and why."""
_OURS = str(Path(__file__).parents[1])


def _explained(error: Exception) -> str:
    """Return what an exception says, and the line of others' code that raised it."""
    if isinstance(error, Failed | OffpisteError):
        return str(error)
    line = _origin(error)
    where = "" if _is_ours(line) else f" ({Path(line.filename).name}, line {line.lineno})"
    return f"it raised {type(error).__name__}: {error}{where}"


def _origin(error: Exception) -> traceback.FrameSummary:
    return traceback.extract_tb(error.__traceback__)[-1]


def _is_ours(line: traceback.FrameSummary) -> bool:
    return line.filename.startswith(_OURS)


def _random_actions(world: World, steps: int) -> list[int]:
    draws = stream(0, "check actions")
    return [int(draws.integers(world.action_count)) for _ in range(steps)]


def _play(world: World, actions: list[int], *, between_episodes: bool = True) -> Iterator[Played]:
    """Take actions, and begin a new episode where one is over."""
    for action in actions:
        if between_episodes:
            world.reset()
        state, reward, terminated, truncated, _ = world.step(action)
        between_episodes = terminated or truncated
        yield Played(zlib.crc32(state.tobytes()), reward, terminated, truncated)


def _play_saving(specimen: Specimen) -> Iterator[Played]:
    world = specimen.open()
    for one in _play(world, specimen.actions):
        world.snapshot()
        yield one


def _saved(specimen: Specimen) -> Iterator[tuple[int, bytes]]:
    """Play, and yield snapshots after random steps."""
    draws, world = stream(0, "check moments"), specimen.open()
    moments = {*draws.integers(1, len(specimen.actions), size=MOMENTS).tolist()}
    for step, _ in enumerate(_play(world, specimen.actions), 1):
        if step in moments:
            yield step, world.snapshot()


def _restored(specimen: Specimen) -> Iterator[tuple[int, World]]:
    """Restore another world from each snapshot."""
    for moment, snapshot in [*_saved(specimen)]:
        world = specimen.open(seed=1)
        world.restore(snapshot)
        yield moment, world


def _ended(specimen: Specimen, moment: int) -> bool:
    last = specimen.played[moment - 1]
    return last.terminated or last.truncated


def _advice(world: World) -> str:
    if getattr(world, "can_snapshot", False):
        return "snapshot() and restore() must carry all that later frames depend on, self.np_random among it"
    return (
        "reset(seed=seed) must set all anew, so that an episode depends on its seed and its actions, and not on "
        "episodes before it; or add snapshot() and restore(), which carry what is left from those"
    )


def _only_if_reproducible(specimen: Specimen) -> None:
    if not specimen.reproducible:
        raise Skipped("the same seed does not give the same frames")
    if specimen.drew_from:
        raise Skipped("it draws from global generators")


def _difference(found: list[Played], expected: list[Played]) -> int:
    """Return the first step, from 1, at which two courses differ; 0 where they do not."""
    pairs = zip(found, expected, strict=False)
    return next((step for step, (one, other) in enumerate(pairs, 1) if one != other), 0)


def main(name: str, steps: str) -> None:
    """Print random play of a world as JSON."""
    specimen = Specimen(name)
    world = specimen.open()
    with specimen.watched():
        print(json.dumps([*_play(world, _random_actions(world, int(steps)))]))


if __name__ == "__main__":
    main(*sys.argv[1:])
