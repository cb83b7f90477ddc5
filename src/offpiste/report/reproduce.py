"""The commands that make the runs of a store again, in short."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from offpiste.analysis.names import ordered_games
from offpiste.analysis.reference import Published
from offpiste.analysis.runs import Run
from offpiste.commands import shell_line, train_options


def loops(runs: Sequence[Run]) -> list[str]:
    """Return the commands with a shell's loops over games and seeds, where all of these go with all of those."""
    groups: dict[tuple[str, ...], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        groups[tuple(train_options(run.settings, run.target_frames))][run.game].append(run.seed)
    lines = []
    for options, by_game in groups.items():
        by_seeds: dict[tuple[int, ...], list[str]] = defaultdict(list)
        for game in ordered_games(by_game):
            by_seeds[tuple(sorted(by_game[game]))].append(game)
        for seeds, games in by_seeds.items():
            words = ["offpiste", "train", *_word("--game", "game", games), *_word("--seed", "seed", seeds)]
            command = f"{' '.join(words)} {shell_line(options)}"
            if len(seeds) > 1:
                command = f"for seed in {' '.join(map(str, seeds))}; do {command}; done"
            if len(games) > 1:
                command = f"for game in {shell_line(games)}; do {command}; done"
            lines.append(command)
    return lines


def import_command(published: Iterable[Published], store: str) -> str:
    """Return the command that imports the published curves, or nothing if there are none."""
    files = sorted({found.file for found in published})
    return shell_line(["offpiste", "import", "dopamine", *files, "--store", store]) if files else ""


def _word(option: str, variable: str, values: Sequence[Any]) -> list[str]:
    return [option, shell_line([str(values[0])]) if len(values) == 1 else f'"${variable}"']
