"""The commands that make the runs of a store again, and the report of it."""

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from offpiste.analysis.load import Run
from offpiste.analysis.reference import Published
from offpiste.config import identity
from offpiste.errors import OffpisteError
from offpiste.methods import base_run
from offpiste.report.look import ordered_games

_SAID_OTHERWISE = ("game", "method", "seed", "frames", "results_version", "bonus.name")


def train_command(run: Run) -> str:
    """Return the command that trains a run, with every setting that is not its game's and method's own."""
    return shlex.join(["offpiste", "train", "--game", run.game, "--seed", str(run.seed), *_options(run)])


def loops(runs: Sequence[Run]) -> list[str]:
    """Return the same commands with a shell's loops over games and seeds, where all of these go with all of those."""
    groups: dict[tuple[str, ...], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        groups[tuple(_options(run))][run.game].append(run.seed)
    lines = []
    for options, by_game in groups.items():
        by_seeds: dict[tuple[int, ...], list[str]] = defaultdict(list)
        for game in ordered_games(by_game):
            by_seeds[tuple(sorted(by_game[game]))].append(game)
        for seeds, games in by_seeds.items():
            words = ["offpiste", "train", *_word("--game", "game", games), *_word("--seed", "seed", seeds)]
            command = f"{' '.join(words)} {shlex.join(options)}"
            if len(seeds) > 1:
                command = f"for seed in {' '.join(map(str, seeds))}; do {command}; done"
            if len(games) > 1:
                command = f"for game in {' '.join(games)}; do {command}; done"
            lines.append(command)
    return lines


def import_command(published: Iterable[Published], store: str) -> str:
    """Return the command that imports the published curves, or nothing if there are none."""
    files = sorted({found.file for found in published})
    return shlex.join(["offpiste", "import", "dopamine", *files, "--store", store]) if files else ""


def _word(option: str, variable: str, values: Sequence[Any]) -> list[str]:
    return [option, shlex.quote(str(values[0])) if len(values) == 1 else f'"${variable}"']


def _options(run: Run) -> list[str]:
    """Return the words of the command that do not depend on game and seed."""
    bonus = run.settings.get("bonus.name", "none")
    words = ["--method", run.method]
    try:
        base = identity(base_run(run.game, run.method))
    except OffpisteError:  # a method of somebody's own, which only its bonus describes
        words += ["--bonus", bonus]
        try:
            base = identity(base_run(run.game, run.method, bonus))
        except OffpisteError:
            base = {}
    if base.get("bonus.name", bonus) != bonus:
        words += ["--bonus", bonus]
    words += ["--frames", str(run.target_frames)]
    for key, value in run.settings.items():
        if key not in _SAID_OTHERWISE and value != base.get(key) and not (value in ({}, "") and key not in base):
            words += _option(key, value)
    return words


def _option(key: str, value: Any) -> Iterator[str]:
    if key.startswith("bonus.options."):
        yield f"--{key}"
        yield str(value).lower() if isinstance(value, bool) else str(value)
        return
    place, _, name = key.replace("_", "-").rpartition(".")
    prefix = f"--{place}." if place else "--"
    if isinstance(value, bool):
        yield f"{prefix}{'' if value else 'no-'}{name}"
        return
    yield f"{prefix}{name}"
    yield from map(str, _listed(value))


def _listed(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else [value]
