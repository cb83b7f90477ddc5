"""What others have published: Dopamine's training curves, read from its own files, and final scores as a table.

Dopamine (google/dopamine, Apache-2.0) keeps one JSON file per game in baselines/atari/data: a list of records with an
Agent, an Iteration counted from 0 and a Value, the mean return of the iteration's training episodes. `GAME.json` holds
the TensorFlow agents, one run after the other; `GAME_CNN.json` and `GAME_Impala.json` hold the JAX ones, iteration by
iteration, so that nothing says which values belong to one run. The implementations end at different scores for a reason
that nobody has found, so each is a series of its own and is never pooled with another.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from offpiste.config import Count, fingerprint
from offpiste.errors import ConfigError, OffpisteError, StoreError
from offpiste.parsing import Range, from_dict, known
from offpiste.store import layout
from offpiste.store.documents import Name, parse, parse_any, signed, unsigned
from offpiste.store.storage import Folder
from offpiste.worlds.games import GAMES

FOLDER = layout.PUBLISHED
"""Where a store keeps what was imported into it."""
MAX_BYTES = 2**26
"""Of one of these files."""
MAX_POINTS = 10_000
"""Runs times iterations of one of these files; Dopamine's have a thousand."""
Return = Annotated[float, Range(min=-(10**15), max=10**15)]


@dataclass(frozen=True)
class _Record:
    """One of Dopamine's records; the names are theirs."""

    Agent: str
    Iteration: Annotated[int, Range(min=0, max=MAX_POINTS - 1)]
    Value: Return


@dataclass(frozen=True)
class Published:
    """The curves of one game in one published series, with where they come from."""

    series: Name
    """For example dopamine tf; series are never pooled."""
    game: Name
    agent: Name
    method: Name | None
    """The method of ours beside which it may be drawn."""
    file: Name
    sha256: Name
    protocol: dict[str, Any]
    fingerprint: Name
    runs_joined: bool
    """Whether each row of returns is one run; if not, only each iteration's values belong together."""
    iteration_frames: Count
    returns: tuple[tuple[Return | None, ...], ...]
    """[runs, iterations]; None where a run has no such iteration."""

    def curves(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return frames [iterations] and returns [runs, iterations], NaN where there is none."""
        returns = np.array([[np.nan if value is None else value for value in run] for run in self.returns], np.float64)
        return self.iteration_frames * np.arange(1.0, returns.shape[1] + 1), returns


@dataclass(frozen=True)
class PublishedScores:
    """Final scores from one source."""

    name: str
    source: str
    comparable: bool
    """Whether agent, protocol and budget are ours."""
    why: str
    scores: dict[str, float]


def import_dopamine(files: Sequence[str | Path], store: Folder, agent: str = "Rainbow") -> list[Published]:
    """Read baseline files of Dopamine into a store, where reports find them."""
    found = [read_dopamine(file, agent) for file in files]  # all of them, before anything is written
    for published in found:
        store.put(object_name(published), json.dumps(signed(asdict(published))).encode())
    return found


def object_name(published: Published) -> str:
    """Return where a store keeps a series of a game."""
    return f"{FOLDER}/{published.series.replace(' ', '-')}--{published.game}.json"


def read_imported(store: Folder) -> tuple[list[Published], dict[str, str]]:
    """Return what was imported into a store, and by the names of others what is wrong with them."""
    found, wrong = [], {}
    try:
        names = store.list(FOLDER)
    except StoreError as error:
        return [], {FOLDER: str(error)}
    for name in (f"{FOLDER}/{name}" for name in names):
        try:
            found.append(from_json(store.get(name, MAX_BYTES + 1) or b""))
        except (ValueError, OffpisteError) as error:
            wrong[name] = f"{error}; import it again"
    return found, wrong


def from_json(data: bytes) -> Published:
    """Return what `import_dopamine` wrote; ValueError or ConfigError for anything else."""
    published = from_dict(Published, unsigned(parse(data, MAX_BYTES)))
    if len({len(run) for run in published.returns}) != 1 or not published.returns[0]:
        raise ValueError("returns must have runs of as many iterations each")
    _check_points(len(published.returns), len(published.returns[0]))
    return published


def read_dopamine(file: str | Path, agent: str = "Rainbow") -> Published:
    """Return the curves of one agent in one of Dopamine's baseline files."""
    path = Path(file)
    data = Folder(path.parent).get(path.name, MAX_BYTES + 1)
    if data is None:
        raise StoreError(f"cannot read {path}: there is no such file")
    try:
        rows = parse_any(data, MAX_BYTES)
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError("it must be a list of tables")
        records = [from_dict(_Record, known(_Record, row)) for row in rows]
        points = [(record.Iteration, record.Value) for record in records if record.Agent == agent]
        returns, joined = _split(points) if points else ((), False)
    except (ValueError, ConfigError) as error:
        raise StoreError(
            f"{path} is no baseline file of Dopamine, a JSON list of records with Agent, Iteration, Value: {error}"
        ) from None
    if not points:
        found = ", ".join(sorted({record.Agent for record in records})) or "no record"
        raise StoreError(f"{path} has no agent {agent!r}; it has {found:.1000}")
    name, _, network = path.stem.rpartition("_") if path.stem.endswith(("_CNN", "_Impala")) else (path.stem, "", "")
    implementation = "tf" if not network and "JAX" not in agent else "jax"
    series = f"dopamine {implementation}{' impala' if network == 'Impala' else ''}"
    protocol = {
        "implementation": series,
        "agent": agent,
        "network": network or "CNN",
        "sticky_action_probability": 0.25,
        "life_loss_terminal": False,
        "iteration_frames": 1_000_000,
        "returns": "training",
    }
    return Published(
        series=series if agent == "Rainbow" else f"{series} {agent}",
        game=_game(name),
        agent=agent,
        method="epsilon_greedy" if agent == "Rainbow" and network != "Impala" else None,
        file=path.name,
        sha256=hashlib.sha256(data).hexdigest(),
        protocol=protocol,
        fingerprint=fingerprint(protocol),
        runs_joined=joined,
        iteration_frames=1_000_000,
        returns=returns,
    )


def _split(points: list[tuple[int, float]]) -> tuple[tuple[tuple[float | None, ...], ...], bool]:
    """Return values by run and iteration, and whether runs stand one after the other, each from its first iteration."""
    order = [iteration for iteration, _ in points]
    joined = len(set(order)) == len(order) or order != sorted(order)
    runs: list[dict[int, float]] = []
    seen: dict[int, int] = {}
    previous = math.inf
    for iteration, value in points:
        if joined:
            if iteration <= previous:
                runs.append({})
            run, previous = len(runs) - 1, iteration
        else:
            run = seen[iteration] = seen.get(iteration, -1) + 1
            if run == len(runs):
                runs.append({})
        runs[run][iteration] = value
    length = max(order) + 1
    _check_points(len(runs), length)
    return tuple(tuple(run.get(iteration) for iteration in range(length)) for run in runs), joined


def _check_points(runs: int, iterations: int) -> None:
    """Raise ValueError for curves with more points than any that were published: they would fill a page."""
    if runs * iterations > MAX_POINTS:
        raise ValueError(f"it must have <= {MAX_POINTS:,} points, got {runs:,} runs of {iterations:,} iterations")


def _game(name: str) -> str:
    """Return our name of a game that Dopamine writes without underscores."""
    from offpiste.worlds.atari import known_games  # brings the emulator, which only this needs

    games = {game.replace("_", ""): game for game in known_games()}
    plain = name.replace("_", "").lower()
    if plain not in games:
        raise StoreError(f"no game is named {name!r}; a file of Dopamine is named after its game, as in freeway.json")
    return games[plain]


_HESSEL = "Hessel et al., 2018"
_DOPAMINE = "Dopamine's baselines: Rainbow, 5 runs, training return, mean of the last 10 iterations"
_OSTROVSKI = "Ostrovski et al., 2017, at second hand"
_BURDA = "Burda et al., 2018, at second hand"


def _by_game(*scores: float | None) -> dict[str, float]:
    """Return scores that stand in the order of the table of games."""
    return {game: score for game, score in zip(GAMES, scores, strict=False) if score is not None}


PUBLISHED_SCORES = (
    PublishedScores(
        "dopamine tf",
        _DOPAMINE,
        True,
        "our protocol, agent and budget",
        _by_game(487.3, 33.6, 1260.0, 21346.1, 1540.5, 1876.9, -12.3, 17512.7, 9936.6, 6224.3, 4116.6, 46390.2),
    ),
    PublishedScores(
        "dopamine jax",
        _DOPAMINE,
        True,
        "our protocol, agent and budget",
        _by_game(565.8, 33.6, 2842.7, 19492.6, 1566.4, 1992.9, -26.7, 17641.4, 17524.4, 6221.5, 5100.3, 48082.7),
    ),
    PublishedScores(
        "Rainbow",
        _HESSEL,
        False,
        "the full Rainbow, evaluated, with no-op starts and without sticky actions",
        _by_game(384.0, 34.0, 1419.3, 4234.0, 5.5, 3560.3, 0.0, 428200.3, 15898.9, 16850.2, 18789.0, 55887.4),
    ),
    PublishedScores(
        "DQN with CTS",
        _OSTROVSKI,
        False,
        "another agent, protocol and budget",
        _by_game(3705.5, 31.7, 498.3, 8358.7, 82.2, 2863.6, 0.0),
    ),
    PublishedScores(
        "DQN with PixelCNN",
        _OSTROVSKI,
        False,
        "another agent, protocol and budget",
        _by_game(2514.3, 31.7, 859.1, 15806.5, 1356.25, 5501.5, 0.0),
    ),
    PublishedScores(
        "PPO",
        _BURDA,
        False,
        "another agent, protocol and budget",
        _by_game(2497.0, None, 3426.0, 105.0, 0.0, 3387.0, 0.0),
    ),
    PublishedScores(
        "PPO with RND",
        _BURDA,
        False,
        "another agent, protocol and budget",
        _by_game(8152.0, None, 3906.0, 8666.0, 1859.0, 3282.0, -3.0),
    ),
)
"""Published final scores by game; random and human ones stand with the games (offpiste.worlds.games)."""
