"""The commands that make the runs of a store again, in short."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from offpiste.analysis.names import ordered_games
from offpiste.analysis.reference import Published
from offpiste.analysis.runs import Run
from offpiste.commands import shell_line, train_options


def loops(runs: Sequence[Run]) -> list[str]:
    """Return the commands with a shell's loops over methods, games and seeds, where all of these go with all of those.

    Methods share a loop if their other options, games and seeds are the same.
    """
    groups: dict[tuple[str, ...], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        groups[tuple(train_options(run.settings, run.target_frames))][run.game].append(run.seed)
    methods: dict[tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...]], list[str]] = defaultdict(list)
    for (_, method, *others), by_game in groups.items():
        by_seeds: dict[tuple[int, ...], list[str]] = defaultdict(list)
        for game in ordered_games(by_game):
            by_seeds[tuple(sorted(by_game[game]))].append(game)
        for seeds, games in by_seeds.items():
            methods[tuple(others), tuple(games), seeds].append(method)
    return [
        _looped({"game": games, "seed": seeds, "method": m}, others) for (others, games, seeds), m in methods.items()
    ]


def import_command(published: Iterable[Published], store: str) -> str:
    """Return the command that imports the published curves, or nothing if there are none."""
    files = sorted({found.file for found in published})
    return shell_line(["offpiste", "import", "dopamine", *files, "--store", store]) if files else ""


def _looped(values: Mapping[str, Sequence[Any]], others: Sequence[str]) -> str:
    """Return a command with options of one value each, and with a loop around it for each option of several."""
    words = {name: list(map(str, several)) for name, several in values.items()}
    options = [
        f'--{name} "${name}"' if len(several) > 1 else f"--{name} {shell_line(several)}"
        for name, several in words.items()
    ]
    command = f"offpiste train {' '.join(options)} {shell_line(others)}"
    for name, several in reversed(words.items()):
        if len(several) > 1:
            command = f"for {name} in {shell_line(several)}; do {command}; done"
    return command
