"""The runs of a bundle."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from offpiste.analysis.runs import UNUSABLE, LoadWarning, Run, run_of
from offpiste.analysis.sources import BundleSource, Opened
from offpiste.config import RunConfig, fingerprint, method_settings, protocol_settings
from offpiste.errors import ConfigError
from offpiste.parsing import from_dict, to_dict
from offpiste.store.bundle import RUNS, Bundle


def read(bundle: Bundle, named: Callable[[str], str]) -> Opened:
    """Return what a bundle holds; `named` gives the name by which a run is known from its name in the bundle."""
    rows = {row["run"]: row for row in bundle.rows(RUNS).to_pylist()}
    runs: dict[str, Run] = {}
    warnings: list[LoadWarning] = []
    for listed in bundle.manifest.runs:
        about = asdict(listed) | rows[listed.name] | {"results_version": bundle.manifest.results_version}
        try:
            about["config"] = to_dict(checked_config(about, json.loads(about["config"])))
            run = run_of(named(listed.name), bundle.folder.location, about)
        except (*UNUSABLE, ConfigError) as error:
            what = f"this version cannot use its settings: {error!s:.200}"
            warnings.append(LoadWarning("damaged run.json", named(listed.name), what))
        else:
            runs[listed.name] = replace(run, target_frames=listed.frames, state="finished")
    names = {name: run.name for name, run in runs.items()}
    return Opened(bundle.folder.location, [*runs.values()], warnings, bundle=BundleSource(bundle, names))


def checked_config(about: Mapping[str, Any], settings: Any) -> RunConfig:
    """Return the settings of a run, all known and in range; ValueError where its fingerprints are not theirs."""
    config = from_dict(RunConfig, settings)
    found = {
        "protocol_fingerprint": fingerprint(protocol_settings(config)),
        "method_fingerprint": fingerprint(method_settings(config)),
    }
    for key, value in found.items():
        if about[key] != value:
            raise ValueError(f"{key} is {about[key]}, and that of its settings is {value}")
    return config
