"""What methods and games are called, the order they come in, and short forms of frames and seeds."""

import re
from collections.abc import Container, Iterable, Sequence

from offpiste.methods import METHODS
from offpiste.worlds.games import GAMES
from offpiste.worlds.registry import SUITES, WORLDS, find


def label(method: str) -> str:
    """Return what a method is called in text, tables and figures; no two are called the same."""
    if method in METHODS:
        return METHODS[method].label
    return _unlike(method, {known.label for known in METHODS.values()})


def title(game: str) -> str:
    """Return the name of a game as people write it; no two are called the same."""
    name = find(game).title or game.replace("_", " ").title()
    if game in WORLDS or re.fullmatch("[a-z0-9]+(_[a-z0-9]+)*", game):
        return name
    return _unlike(game, {name, *(world.title for world in WORLDS.values())})


def _unlike(name: str, taken: Container[str]) -> str:
    """Return a name that a store may have made up: as it is, or in quotes where that would be taken for another's."""
    return f"‘{name}’" if name in taken or name.startswith("‘") else name


def unused(heading: str, taken: Container[str]) -> str:
    """Return a heading as it is, or in quotes where there is one like it."""
    while heading in taken:
        heading = f"‘{heading}’"
    return heading


def spell_out(text: str) -> str:
    """Return a sentence with the keys of games and methods replaced by their names."""
    names = {game: title(game) for game in (*GAMES, *SUITES["small_worlds"])} | {
        method: label(method) for method in METHODS
    }
    return re.sub(r"\b\w+\b", lambda word: names.get(word[0], word[0]), text).replace("'", "’")


def ordered_methods(methods: Iterable[str]) -> list[str]:
    """Return methods in the order of their table, the paper's first, then others by name."""
    indices = {name: index for index, name in enumerate(METHODS)}
    return sorted(set(methods), key=lambda name: (indices.get(name, len(indices)), name))


def ordered_games(games: Iterable[str]) -> list[str]:
    """Return games in the order of the table of worlds, the paper's first, then others by name."""
    rows = dict.fromkeys((*GAMES, *SUITES["small_worlds"], *WORLDS))
    indices = {name: index for index, name in enumerate(rows)}
    return sorted(set(games), key=lambda game: (indices.get(game, indices.get(find(game).name, len(indices))), game))


def and_text(names: Sequence[str]) -> str:
    """Return names as a sentence lists them: CTS, ICM and RND."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def frames_text(frames: float) -> str:
    """Return a number of frames in short: 200M, 8k, 1.5M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if frames >= size:
            return f"{frames / size:.4g}{unit}"
    return f"{frames:.4g}"


def seeds_text(seeds: tuple[int, ...]) -> str:
    """Return seeds in short: 0–4, 7."""
    ranges: list[tuple[int, int]] = []
    for seed in seeds:
        if ranges and seed == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], seed)
        else:
            ranges.append((seed, seed))
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in ranges) or "–"
