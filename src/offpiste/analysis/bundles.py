"""The runs of a bundle."""

from collections.abc import Callable
from dataclasses import asdict, replace

from offpiste.analysis.runs import LoadWarning, Run, run_of
from offpiste.analysis.sources import BundleSource, Opened
from offpiste.config import RunConfig, fingerprint, method_settings, protocol_settings
from offpiste.errors import ConfigError
from offpiste.store.bundle import RUNS, Bundle
from offpiste.store.documents import StoredRun, parse, parse_run


def read(bundle: Bundle, named: Callable[[str], str]) -> Opened:
    """Return what a bundle holds; `named` gives the name by which a run is known from its name in the bundle."""
    rows = {row["run"]: row for row in bundle.rows(RUNS).to_pylist()}
    runs: dict[str, Run] = {}
    warnings: list[LoadWarning] = []
    for listed in bundle.manifest.runs:
        about = (
            asdict(listed)
            | rows[listed.name]
            | {"run_id": listed.name, "results_version": bundle.manifest.results_version}
        )
        try:
            stored = parse_run(about | {"config": parse(about["config"].encode())})
            check_fingerprints(stored)
            run = run_of(named(listed.name), bundle.folder.location, stored, bundle.manifest.suite_version)
        except (ValueError, ConfigError) as error:
            what = f"this version cannot use its settings: {error!s:.200}"
            warnings.append(LoadWarning("damaged run.json", named(listed.name), what))
        else:
            runs[listed.name] = replace(run, target_frames=listed.frames, state="finished")
    names = {name: run.name for name, run in runs.items()}
    return Opened(bundle.folder.location, [*runs.values()], warnings, bundle=BundleSource(bundle, names))


def check_fingerprints(stored: StoredRun) -> RunConfig:
    """Return the settings of a run, all known and in range; ValueError where its fingerprints are not theirs."""
    config = stored.settings
    protocol = protocol_settings(config, stored.results_version)
    for key, found, of_settings in (
        ("protocol_fingerprint", stored.protocol_fingerprint, fingerprint(protocol)),
        ("method_fingerprint", stored.method_fingerprint, fingerprint(method_settings(config))),
    ):
        if found != of_settings:
            raise ValueError(f"{key} is {found}, and that of its settings is {of_settings}")
    return config
