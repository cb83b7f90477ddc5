"""How far a study is, by the runs in a store or a bundle."""

from offpiste.analysis.results import Results
from offpiste.study.plan import Study


def unfinished(study: Study, results: Results) -> list[str]:
    """Return the runs of a study that are not finished, in its order."""
    finished = {run.name for run in results.runs if run.complete}
    return [run.run_id for run in study.runs if run.run_id not in finished]
