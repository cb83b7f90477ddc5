"""run.json: which run a folder holds, whether it is the wanted one, and how a folder is claimed for it.

It is read as if a stranger had written it; `machine` is not read: whoever trains a run says where and how.
"""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Annotated, Any

from offpiste.config import (
    RESULTS_VERSION,
    AgentConfig,
    BonusConfig,
    CountOrZero,
    ExplorationConfig,
    RunConfig,
    ScheduleConfig,
    Seed,
    WorldConfig,
    check_name,
    fingerprint,
    identity,
    method_settings,
    protocol_settings,
)
from offpiste.errors import CheckpointError, ConfigError, Damaged, RunMismatch, StoreError
from offpiste.parsing import Range, from_dict, known, to_dict
from offpiste.store import documents, layout
from offpiste.store.documents import Name, NameOrEmpty
from offpiste.store.finished import finished_frames, finished_frames_all
from offpiste.store.manifests import manifest_names
from offpiste.store.storage import Folder


@dataclass(frozen=True)
class StoredRun:
    """What run.json says of a run."""

    config: dict[str, Any]
    """All settings but `machine`, those known to this version in range; a later version may have more."""
    protocol_fingerprint: Name
    method_fingerprint: Name
    results_version: Annotated[int, Range(min=0, max=10**6)]
    offpiste: Name
    run_id: Name
    bonus_source: Name | None = None

    @property
    def settings(self) -> RunConfig:
        """The settings, with `machine` at its defaults; ConfigError for one that this version does not know."""
        return from_dict(RunConfig, self.config)

    @property
    def identity(self) -> dict[str, str]:
        """What every manifest, mark and status of the run repeats."""
        return {
            "run_id": self.run_id,
            "protocol_fingerprint": self.protocol_fingerprint,
            "method_fingerprint": self.method_fingerprint,
            **({"bonus_source": self.bonus_source} if self.bonus_source else {}),
        }


@dataclass(frozen=True)
class _Named:
    """What names a run among its settings."""

    game: Name
    method: Name
    seed: Seed
    frames: CountOrZero
    variant: NameOrEmpty = ""


_TABLES: dict[str, type[Any]] = {
    "world": WorldConfig,
    "agent": AgentConfig,
    "schedule": ScheduleConfig,
    "exploration": ExplorationConfig,
    "bonus": BonusConfig,
}


def read_run(folder: Folder) -> StoredRun | None:
    """Return what run.json says, or None if there is none; raise `Damaged` if it cannot be used."""
    values = documents.read(folder, layout.RUN)
    if values is None:
        return None
    if values.get("format") != layout.FORMAT:
        found = values.get("format", "an older one")
        raise Damaged(
            f"{layout.RUN} in {folder.location} must have format {layout.FORMAT}, got {found!s:.20}; read and resume "
            f"the run with the version of offpiste that wrote it ({values.get('offpiste', 'unknown')!s:.40}), or train "
            "it again in another folder"
        )
    return documents.parsed(folder, layout.RUN, lambda: parse_run(documents.unsigned(values)))


def read_config(folder: Folder) -> RunConfig:
    """Return the configuration of the run in a folder, with `machine` at its defaults."""
    stored = read_run(folder)
    if stored is None:
        raise StoreError(f"{folder.location} holds no run: there is no {layout.RUN} in it; give the folder of a run")
    return stored.settings


def parse_run(values: Mapping[str, Any]) -> StoredRun:
    """Return the run of a run.json; ConfigError or ValueError if it does not say what the run is."""
    stored = from_dict(StoredRun, known(StoredRun, values))
    config = {key: value for key, value in stored.config.items() if key != "machine"}
    config = _checked(_Named, config)
    for table, kind in _TABLES.items():
        config[table] = _checked(kind, config.get(table), f"{table}.")
    for table, key in (("schedule", "iteration_steps"), ("schedule", "evaluation_steps"), ("world", "frame_skip")):
        if key not in config[table]:
            raise ConfigError(f"{table}.{key} must be set")
    return replace(stored, config=config)


def about(config: RunConfig, bonus_source: str | None = None) -> dict[str, Any]:
    """Return the content of run.json; `bonus_source` is the hash of the file of a bonus that is not built in."""
    return {
        "format": layout.FORMAT,
        "run_id": config.run_id,
        "config": to_dict(config),
        **fingerprints(config),
        "results_version": RESULTS_VERSION,
        "offpiste": version("offpiste"),
        "bonus_source": bonus_source,
    }


def fingerprints(config: RunConfig) -> dict[str, str]:
    """Return the fingerprints of a run, as its run.json names them."""
    settings = repr([getattr(config, table) for table in _TABLES])
    if settings not in _fingerprints:  # which a thousand runs may share
        of = {"protocol": protocol_settings(config), "method": method_settings(config)}
        _fingerprints[settings] = {f"{name}_fingerprint": fingerprint(found) for name, found in of.items()}
    return _fingerprints[settings]


_fingerprints: dict[str, dict[str, str]] = {}
"""By settings."""


def claim(
    folder: Folder, config: RunConfig, bonus_source: str | None = None, *, accept_version: bool = False
) -> StoredRun:
    """Write run.json, or raise RunMismatch if the folder already holds another run; return what it says."""
    stored = read_run(folder)
    sources = {config.bonus.name: bonus_source}
    if stored is None:
        check_name(config)
        _refuse_without_run(folder)
    if stored is None or may_restart(folder, stored, config, sources):
        content = about(config, bonus_source)
        documents.write(folder, layout.RUN, content, indent=1)
        return parse_run(content)
    if found := mismatch(stored, config, sources, accept_version=accept_version):
        own_name = "" if config.bonus.name == "none" else "--method NAME, "
        raise RunMismatch(
            f"{folder.location} holds {found}. Resume that run with its own settings, or store this one elsewhere: "
            f"--variant NAME while you tune, {own_name}or another --out"
        )
    return stored


def has_recorded(folder: Folder) -> bool:
    """Return whether a run has left a checkpoint or results in this folder."""
    names = folder.list()
    return layout.CHECKPOINTED in names or finished_frames(names) >= 0 or bool(manifest_names(folder))


def may_restart(
    folder: Folder, stored: StoredRun, wanted: RunConfig, bonus_sources: Mapping[str, str | None] | None
) -> bool:
    """Return whether a run may begin anew in its folder: its code or its bonus's changed before it recorded anything.

    A process that still works on it is superseded by the new attempt, and its checkpoints carry the old bonus's hash.
    """
    return (
        bool(mismatch(stored, wanted, bonus_sources))
        and not mismatch(stored, wanted, bonus_sources, accept_version=True)
        and not has_recorded(folder)
    )


def mismatch(
    stored: StoredRun,
    wanted: RunConfig,
    bonus_sources: Mapping[str, str | None] | None = None,
    *,
    accept_version: bool = False,
) -> str:
    """Return how the run of a stored run.json differs from the wanted one, or "" if it is the same run.

    `bonus_sources` maps a bonus's name to the hash of its file; without it, files are not compared.
    """
    try:
        differing = [] if _has_settings(stored, wanted) else differences(stored.settings, wanted)
    except ConfigError as error:
        return f"a run with settings unknown to this version: {error}"
    if differing:
        return f"another run: {'; '.join(differing)}"
    if accept_version:
        return ""
    if stored.results_version != RESULTS_VERSION:
        return (
            f"a run started by offpiste {stored.offpiste} (results version {stored.results_version}); "
            f"this is {version('offpiste')} (results version {RESULTS_VERSION}), whose numbers differ; "
            "--accept-version mixes them knowingly"
        )
    if bonus_sources is not None and stored.bonus_source != bonus_sources[wanted.bonus.name]:
        return (
            f"a run of the bonus {wanted.bonus.name} from before its file was changed, and perhaps its numbers; "
            "--accept-version mixes them knowingly"
        )
    return ""


def differences(stored: RunConfig, wanted: RunConfig) -> list[str]:
    """Return one line per setting that makes the stored run another than the wanted one."""
    before, now = identity(stored), identity(wanted)
    return [
        f"{key} is {before.get(key)!r} there and {now.get(key)!r} here"
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key)
    ]


def _refuse_without_run(folder: Folder) -> None:
    """Raise CheckpointError where a run has left something, but not its run.json, which is written before all else."""
    names = folder.list()
    parts = (layout.MANIFESTS, layout.OBJECTS) + (() if layout.DISCARDED in names else (layout.ATTEMPTS,))
    left = [name for name in parts if folder.list(name)]
    left += [name for name in names if name == layout.CHECKPOINTED or finished_frames_all([name])]
    if left:
        raise CheckpointError(
            f"{folder.location} holds {', '.join(left)} of a run, but no {layout.RUN}, so nothing says of which; "
            f"restore {layout.RUN} from a backup, or train in another folder"
        )


def _has_settings(stored: StoredRun, wanted: RunConfig) -> bool:
    """Return whether run.json names the very settings; if not, they may still say the same."""
    ours = to_dict(wanted)
    del ours["machine"]
    return stored.config | {"frames": wanted.frames} == ours


def _checked(kind: Any, values: Any, where: str = "") -> dict[str, Any]:
    """Return settings, those that this version knows checked and as their types."""
    if not isinstance(values, dict):
        raise ConfigError(f"{where.rstrip('.')} must be a table, got {values!r:.100}")
    checked = json.loads(_checked_json(kind, json.dumps(known(kind, values)), where))
    return {key: checked.get(key, value) for key, value in values.items()}


@functools.lru_cache(256)  # a thousand runs have the same tables, but for names and seeds
def _checked_json(kind: Any, values: str, where: str) -> str:
    return json.dumps(to_dict(from_dict(kind, json.loads(values), where)))
