"""What a run in a store is, what may be wrong there, and which runs may be drawn or averaged together."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from offpiste.config import PROTOCOL_TABLES, RESULTS_VERSION, BonusConfig, flatten, later_defaults
from offpiste.methods import RANDOM_PLAY
from offpiste.store.identity import StoredRun
from offpiste.worlds.registry import SUITE_VERSION

PROTOCOL_KEYS = (*(f"{table}." for table in PROTOCOL_TABLES), "results_version", "suite_version")
"""How the settings begin that every method shares."""
VERSION = (RESULTS_VERSION, SUITE_VERSION)
"""Of results and of the worlds and suites; runs of one version are never averaged or judged with those of another."""


@dataclass(frozen=True)
class LoadWarning:
    """Something in a store that could not be used as it is."""

    kind: str
    """missing run.json, damaged run.json, damaged status.json, damaged mark, damaged table, damaged checkpoint, damaged
    import, not readable, folder not read, no records, not a number, duplicate run, bundle in a store or another
    version."""
    where: str
    message: str


@dataclass(frozen=True)
class Run:
    """One run of a store."""

    name: str
    """Its folder below the store; of a store that was read beside another, with the store's location before it."""
    store: str
    """The location of the store or bundle that it was read from."""
    game: str
    method: str
    """As its settings name it, or random play if it ends before it would learn."""
    variant: str
    """What sets it apart from its method's own constants; empty outside of tuning."""
    seed: int
    protocol: str
    method_fingerprint: str
    settings: dict[str, Any]
    """All of its settings, by dotted names, and the versions of results and suite."""
    target_frames: int
    frames: int = 0
    """Done and recorded, as `config.counted_steps` counts: all of an iteration once its evaluation is over."""
    state: str = "unknown"
    """As its status says: running, paused, finished or failed."""
    bonus_source: str | None = None
    """Hash of the file of a bonus that is not one of ours, where the run has recorded it."""

    @property
    def complete(self) -> bool:
        """Whether it has got to its end, the last evaluation included."""
        return self.has_reached(self.target_frames)

    @property
    def version(self) -> tuple[int, int]:
        """Of results and suite."""
        return self.settings["results_version"], self.settings["suite_version"]

    @property
    def arm(self) -> str:
        """What its seeds are averaged over: the method, with the variant where there is one."""
        return f"{self.method} {self.variant}" if self.variant else self.method

    def has_reached(self, frames: int) -> bool:
        """Whether it has come as far as that, in whole steps, for a run cannot end between two."""
        skip = self.settings["world.frame_skip"]
        return bool(self.frames // skip >= frames // skip and frames > 0)

    @property
    def iteration_frames(self) -> int:
        """Frames that count for one iteration."""
        return int(self.settings["schedule.iteration_steps"] * self.settings["world.frame_skip"])


def run_of(name: str, store: str, stored: StoredRun, suite_version: int = SUITE_VERSION) -> Run:
    """Return the run that a run.json describes; its protocol names the version of the suite if that is another one."""
    config = stored.config
    versions = {"results_version": stored.results_version, "suite_version": suite_version}
    settings = later_defaults() | flatten(config) | versions
    suite = f" of suite {suite_version}" if suite_version != SUITE_VERSION else ""
    return Run(
        name=name,
        store=store,
        game=config["game"],
        method=RANDOM_PLAY if plays_at_random(settings) else config["method"],
        variant=config.get("variant", ""),
        seed=config["seed"],
        protocol=stored.protocol_fingerprint + suite,
        method_fingerprint=stored.method_fingerprint,
        settings=settings,
        target_frames=config["frames"],
        bonus_source=stored.bonus_source,
    )


def other_versions(runs: Sequence[Run]) -> list[LoadWarning]:
    """Return a label for each version of a store's runs that is not the present one."""
    return [
        LoadWarning(
            "another version",
            next(run.store for run in runs if run.version == version),
            f"{count} of its runs are of {version_text(version)}, and this is {version_text(VERSION)}; their numbers "
            "are shown apart, and neither averaged, compared nor judged with those of another version",
        )
        for version, count in sorted(Counter(run.version for run in runs).items())
        if version != VERSION
    ]


def version_text(version: tuple[int, int]) -> str:
    """Return a version of results and suite for people."""
    return f"results version {version[0]} and suite version {version[1]}"


def plays_at_random(settings: Mapping[str, Any]) -> bool:
    """Whether a run without a bonus, by its settings, ends within its warm-up, in which ε stays 1."""
    return bool(
        settings["agent.min_history_steps"] * settings["world.frame_skip"] >= settings["frames"]
        and settings["exploration.epsilon_start"] == 1.0
        and not settings["exploration.noisy"]
        and settings["exploration.max_repeat_steps"] == 1
        and settings["bonus.name"] == BonusConfig.name
    )


def differences(runs: Sequence[Run]) -> str:
    """Return why runs may not be drawn or averaged together, with the settings that differ; empty if they may."""
    arms: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        arms[run.arm].append(run)
    differing = _differing(runs, "protocol", PROTOCOL_KEYS)
    for name, arm in arms.items():
        differing |= _differing(arm, "method_fingerprint", ("exploration.", "bonus."))
        if len({run.bonus_source for run in arm}) > 1:
            differing[f"the file of the bonus of {name}"] = [
                run.bonus_source[:12] if run.bonus_source else "not recorded" for run in arm
            ]
    listed = "; ".join(f"{key} is {_counted(values)}" for key, values in sorted(differing.items()))
    return f"these runs were not made alike: {listed}" if listed else ""


def arms_by_protocol(runs: Sequence[Run]) -> list[list[Run]]:
    """Return runs in groups that were each made alike: those of one arm under one protocol."""
    groups: dict[tuple[str | None, ...], list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.arm, run.protocol, run.method_fingerprint, run.bonus_source].append(run)
    return [*groups.values()]


def _differing(runs: Sequence[Run], mark: str, prefixes: tuple[str, ...]) -> dict[str, list[Any]]:
    if len({getattr(run, mark) for run in runs}) < 2:
        return {}
    keys = sorted({key for run in runs for key in run.settings if key.startswith(prefixes)})
    found = {key: [run.settings.get(key) for run in runs] for key in keys}
    return {key: values for key, values in found.items() if len({repr(value) for value in values}) > 1}


def _counted(values: Sequence[Any]) -> str:
    return " and ".join(f"{value} in {count}" for value, count in Counter(map(repr, values)).most_common())
