"""A study: a TOML file that describes its runs.

games      names of games or suites                 seeds   the same for every method
methods    names, or tables with `name` or `bonus`, `settings`, a `grid` of named axes, each over one setting, and
           `games` of its own
frames     length of a run, if not the world's default
keep       results (weights and records) or all (the replay, too)
settings   shared by all runs                       resources   of one run

Runs are ordered by seed first, so that every game and method starts early.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from offpiste.config import CountOrZero, RunConfig, Seed, check_name
from offpiste.errors import ConfigError, did_you_mean
from offpiste.methods import METHODS, base_run
from offpiste.parsing import Range, from_dict, read_settings, to_dict
from offpiste.worlds.registry import SUITES, check_game, is_ours, load

_OWN_KEYS = ("game", "method", "variant", "seed", "frames")
"""Settings of a run that have a key of their own in a study."""


@dataclass(frozen=True)
class Resources:
    """What one run needs while it trains."""

    cpus: Annotated[float, Range(min=0)] = 1.0
    """Processor cores."""
    gpus: Annotated[float, Range(min=0)] = 0.0
    """GPUs; with 0.25, four runs share one."""
    memory_gb: Annotated[float, Range(min=0)] = 0.0
    """Memory in gigabytes; 0, the default, estimates it from the settings of the run."""


@dataclass(frozen=True)
class GridAxis:
    """One named axis of a grid."""

    setting: str = ""
    """The setting it varies, such as bonus.scale or bonus.options.learning_rate."""
    values: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Arm:
    """One method of a study."""

    name: str = ""
    """The method's name; with a bonus it is optional, and may be a new one."""
    bonus: str = ""
    """A bonus of your own as module:Class, or the name of an installed one, as with `offpiste train --bonus`."""
    variant: str = ""
    """A name for settings that differ from a known method's; by default, those settings are listed."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of this arm only."""
    grid: dict[str, Any] = field(default_factory=dict)
    """Named axes; the arm becomes one variant per combination of their values."""
    games: list[str] = field(default_factory=list)
    """The games of this arm only; those of the study by default."""


@dataclass(frozen=True)
class Study:
    """The runs of a study, and what they share."""

    name: str
    runs: tuple[RunConfig, ...]
    arms: tuple[Arm, ...]
    resources: Resources
    keep: Literal["results", "all"]
    bonus_sources: Mapping[str, str | None] | None = None
    """The hash of each bonus's file, by the bonus's name; None before `load_bonuses`."""

    def source_of(self, run: RunConfig) -> str | None:
        """Return the hash of the file of a run's bonus, where it is known."""
        return (self.bonus_sources or {}).get(run.bonus.name)


@dataclass(frozen=True)
class _File:
    """The keys of a study's file."""

    games: list[str] = field(default_factory=list)
    methods: list[Any] = field(default_factory=list)
    seeds: list[Seed] = field(default_factory=list)
    frames: CountOrZero | None = None
    keep: Literal["results", "all"] = "results"
    settings: dict[str, Any] = field(default_factory=dict)
    resources: Resources = field(default_factory=Resources)


def read_study(path: str | Path) -> Study:
    """Read a study from its file; the study's name is that of the file without .toml."""
    content = read_settings(path)
    load_worlds(content)
    return make_study(Path(path).stem, content)


def load_worlds(content: Mapping[str, Any]) -> None:
    """Load the worlds of installed packages that a file of somebody's own names: their settings may be their own."""
    for table in (content, *(content.get("methods") or ())):
        games = table.get("games") if isinstance(table, Mapping) else None
        for game in games if isinstance(games, list) else ():
            if isinstance(game, str) and ":" not in game and game not in SUITES and not is_ours(game):
                load(game)


def make_study(name: str, content: Mapping[str, Any]) -> Study:
    """Make a study from the content of its file, which a store may hold; ConfigError if it is invalid."""
    file = from_dict(_File, dict(content))
    arms = tuple(_arm(entry) for entry in file.methods)
    needs_games = not arms or not all(arm.games for arm in arms)
    for key, found in (("games", file.games or not needs_games), ("methods", arms), ("seeds", file.seeds)):
        if not found:
            raise ConfigError(f"{key} of the study {name!r} must be a list of at least one, got []")
    _refuse_own_keys(file.settings, "settings")
    games = [[*_games(arm.games or file.games)] for arm in arms]
    of_one_seed = [
        run
        for game in dict.fromkeys(itertools.chain(*games))
        for arm, own in zip(arms, games, strict=True)
        for _ in range(own.count(game))
        for run in _runs(game, arm, file.frames, file.settings)
    ]
    runs = tuple(replace(run, seed=seed) for seed in file.seeds for run in of_one_seed)
    twice = [run_id for run_id, count in Counter(run.run_id for run in runs).items() if count > 1]
    if twice:
        raise ConfigError(
            f"the runs of the study {name!r} must differ, got {twice[0]} twice; list each game, value and seed once"
        )
    _check_resources(file.resources, runs)
    return Study(name, runs, arms, file.resources, file.keep)


def load_bonuses(study: Study) -> Study:
    """Return the study with the hashes of its bonuses' files; ConfigError for unknown options and worlds.

    Imports only bonuses that need it: those of the user, and built-in ones whose options are set by the study.
    """
    from offpiste.bonuses.registry import options_of, source_digest

    for game in {run.game for run in study.runs if not is_ours(run.game)}:
        load(game)
    known = {repr((config.name, config.options)) for row in METHODS.values() for config in row.constants.values()}
    for run in study.runs:
        key = repr((run.bonus.name, run.bonus.options))
        if key not in known:
            known.add(key)
            options_of(run.bonus)
    return replace(study, bonus_sources={name: source_digest(name) for name in {run.bonus.name for run in study.runs}})


def axes_of(arm: Arm) -> dict[str, GridAxis]:
    """Return the axes of an arm's grid, by name."""
    axes = {}
    for name, content in arm.grid.items():
        if not isinstance(content, dict):
            raise ConfigError(f"grid.{name} must be a table with setting and values, got {content!r}")
        axis = from_dict(GridAxis, content, where=f"grid.{name}.")
        if not axis.setting or not axis.values:
            raise ConfigError(f"grid.{name} must have a setting and at least one value, got {content!r}")
        axes[name] = axis
    return axes


def points_of(arm: Arm) -> list[dict[str, Any]]:
    """Return every combination of the values on an arm's axes; one empty combination if it has no grid."""
    axes = axes_of(arm)
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*(axes[name].values for name in axes))]


def shown(value: Any) -> str:
    """Return a value as it appears in the name of a run: 0.00005, 2, true, 16-32-32."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        number = Decimal(repr(value))
        return format(number.quantize(Decimal(1)) if number == number.to_integral_value() else number, "f")
    if isinstance(value, list | tuple):
        return "-".join(map(shown, value))
    return str(value)


def _runs(game: str, arm: Arm, frames: int | None, shared: Mapping[str, Any]) -> Iterator[RunConfig]:
    """Yield an arm's runs on a game, one for each of its settings, all with the default seed."""
    axes = axes_of(arm)
    plain = to_dict(base_run(game, arm.name or None, arm.bonus or None))
    plain = _merged(_merged(plain, shared), arm.settings)
    own = arm.variant
    if not own and not arm.bonus:  # other settings of a known method; those of a bonus of your own are no variant
        own = ",".join(f"{key}={shown(value)}" for key, value in _leaves(arm.settings))
    for point in points_of(arm):
        settings = plain
        for name, value in point.items():
            settings = _merged(settings, _nested(axes[name].setting, value))
        names = [own] * bool(own) + [f"{name}={shown(value)}" for name, value in point.items()]
        about = {"variant": ",".join(names)} | ({} if frames is None else {"frames": frames})
        run = from_dict(RunConfig, settings | about)
        check_name(run)
        yield run


def _arm(entry: Any) -> Arm:
    if isinstance(entry, str):
        return Arm(name=entry)
    if not isinstance(entry, dict) or not (entry.get("name") or entry.get("bonus")):
        raise ConfigError(f"a method of a study must be a name, or a table with a name or a bonus, got {entry!r}")
    arm = from_dict(Arm, entry, where="methods.")
    label = arm.name or arm.bonus
    _refuse_own_keys(arm.settings, f"the settings of {label}")
    for axis in axes_of(arm).values():
        _refuse_own_keys(_nested(axis.setting, None), f"the grid of {label}")
    return arm


def _games(names: list[str]) -> Iterator[str]:
    for name in names:
        if name in SUITES:
            yield from SUITES[name]
            continue
        try:
            check_game(name)
        except ConfigError:
            if did_you_mean(name, SUITES).startswith("; did"):
                raise ConfigError(f"no game or suite named {name!r}{did_you_mean(name, SUITES)}") from None
            raise
        yield name


def _refuse_own_keys(settings: Mapping[str, Any], where: str) -> None:
    for key in _OWN_KEYS:
        if key in settings:
            plural = {"game": "games", "method": "methods", "seed": "seeds"}.get(key, key)
            raise ConfigError(f"{where} cannot set {key!r}; set {plural!r} of the study")
    if "name" in (settings.get("bonus") or ()):
        raise ConfigError(f"{where} cannot set 'bonus.name'; set `bonus` in a table [[methods]] of the study")


def _check_resources(resources: Resources, runs: tuple[RunConfig, ...]) -> None:
    if resources.cpus == resources.gpus == 0:
        raise ConfigError("resources.cpus must be > 0 without a GPU, got 0; a run needs a part of a processor")
    for run in runs:
        on_gpu = run.machine.device != "cpu"
        if on_gpu != (resources.gpus > 0):
            raise ConfigError(
                f"settings.machine.device is {run.machine.device!r} and resources.gpus is {shown(resources.gpus)}; "
                "set both for a GPU, or neither"
            )
        if run.machine.threads > max(1.0, resources.cpus):
            raise ConfigError(
                f"settings.machine.threads must be <= resources.cpus, {shown(resources.cpus)}, got "
                f"{run.machine.threads}; raise resources.cpus, or runs slow each other down"
            )


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        inner = merged.get(key)
        if isinstance(inner, dict) and isinstance(value, dict):
            merged[key] = _merged(inner, value)
        else:
            merged[key] = float(value) if type(inner) is float and type(value) is int else value
    return merged


def _nested(dotted: str, value: Any) -> dict[str, Any]:
    for key in reversed(dotted.split(".")):
        value = {key: value}
    nested: dict[str, Any] = value
    return nested


def _leaves(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from _leaves(value)
        else:
            yield key, value
