"""Mean training returns of Dopamine's published Rainbow runs, which are not part of offpiste.

Read from a folder with the files GAME.json and GAME_CNN.json from baselines/atari/data of google/dopamine, or from one
CSV file of the same numbers with the columns game, implementation, iteration (from 0) and mean_train_return.
"""

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

from offpiste.analysis.reference import read_dopamine

Returns = dict[tuple[str, int], dict[str, list[float]]]
"""By game and iteration, counted from 1, and then by implementation."""


def read_published(path: Path, games: Iterable[str]) -> Returns:
    """Return what a folder of Dopamine's files says of these games, or a CSV file of all games."""
    returns: Returns = {}
    for game, implementation, iteration, value in of_dopamine(path, games) if path.is_dir() else of_table(path):
        returns.setdefault((game, iteration), {}).setdefault(implementation, []).append(value)
    return returns


def of_dopamine(folder: Path, games: Iterable[str]) -> Iterator[tuple[str, str, int, float]]:
    """Return game, implementation, iteration and return from Dopamine's own files."""
    for game in games:
        for file, implementation in ((f"{game}.json", "TensorFlow"), (f"{game}_CNN.json", "JAX")):
            for run in read_dopamine(folder / file).returns:
                for iteration, value in enumerate(run, start=1):
                    if value is not None:
                        yield game, implementation, iteration, value


def of_table(file: Path) -> Iterator[tuple[str, str, int, float]]:
    """Return the same from a CSV file."""
    names = {"tf": "TensorFlow", "jax": "JAX"}
    with file.open() as lines:
        for row in csv.DictReader(lines):
            implementation = names[row["implementation"]]
            yield row["game"], implementation, int(row["iteration"]) + 1, float(row["mean_train_return"])
