"""The sections that say how far to trust a report: what is weak, fairness, protocol, and the commands that made it."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from offpiste.analysis import caveats, fairness
from offpiste.report import quality_tables, reproduce, tables
from offpiste.report.material import Material
from offpiste.report.section import Code, Custom, Files, Fold, Heading, Part, Section, Shown, Words
from offpiste.report.sentences import count_of
from offpiste.worlds.games import GAMES

NOTES_SHOWN = 8
"""Caveats of one kind on the page; the CSV file has all."""
RUNS_SHOWN = 12
"""Runs, or games, that one caveat names on the page."""
ROWS_SHOWN = 30
_VARIANTS_SHOWN = 150


def weak(material: Material) -> Iterator[Section]:
    """Yield what is missing or weak, by kind."""
    evidence = material.evidence
    seams = quality_tables.seams_table(material.seams)  # reads the attempts, some of which may not be readable
    notes = material.notes
    parts: list[Part] = [Custom("notes", _grouped(notes)) if notes else Words(["Nothing was found."])]
    parts.append(Files([quality_tables.notes_table(notes)]))
    seeds = quality_tables.seeds_table(evidence)
    if seeds.rows:
        parts += [Heading("Seeds that count"), *_seeds(seeds)]
    needed, unfinished = tables.seeds_needed_table(evidence), quality_tables.unfinished_table(evidence)
    if needed.rows:
        parts.append(Fold("How many seeds would be needed", [Shown(needed)]))
    if unfinished.rows:
        parts += [Heading("Unfinished runs"), Shown(unfinished, ROWS_SHOWN)]
    parts += [Heading("Seams"), *_seams(material, seams)]
    parts.append(Files([each for each in (needed, unfinished) if not each.rows]))
    yield Section("weak", "What is missing or weak", parts)


def _grouped(notes: Sequence[caveats.Note]) -> list[tuple[str, int, list[tuple[str, list[str]]]]]:
    """Return by kind how many notes there are, and each message with all the runs or games that it is about."""
    groups: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for note in notes:
        groups[note.kind][note.message].append(note.where)
    return [(kind, sum(map(len, group.values())), list(group.items())) for kind, group in groups.items()]


def _seeds(table: tables.Table) -> list[Part]:
    """Return how many seeds count: in a sentence where all methods have as many everywhere, and all of them count."""
    counts = Counter(cell for row in table.rows for cell in row[1:])
    (first, number), *others = counts.most_common()
    if not others and first is not None and first.isdigit():
        methods, games = len(table.columns) - 1, len(table.rows)
        each = "each of the " if methods * games > 1 else ""
        plural = "s" * (methods * games > 1)
        said = (
            f"{count_of(int(first), 'seed')} in {each}{number} pair{plural} of method and game, and all of them count."
        )
        return [Words([said]), Files([table])]
    odd = [
        (title_of, name, cell)
        for title_of, *cells in table.rows
        for name, cell in zip(table.columns[1:], cells, strict=True)
        if cell is not None and cell != first
    ]
    if first is not None and len(odd) <= NOTES_SHOWN and counts[None] == 0:
        named = "; ".join(f"{name} on {where} {cell}" for where, name, cell in odd)
        return [Words([f"{first} in every pair of method and game, but {named}."]), Fold("All of them", [Shown(table)])]
    return [Shown(table)]


def _seams(material: Material, table: tables.Table) -> list[Part]:
    total, elsewhere = len(material.evidence.records.runs), sum(bool(each.changes) for each in material.seams)
    if not table.rows:
        return [Words(["No run was continued by another process: there are no seams."]), Files([table])]
    said = (
        f"Continued by another process: {len(table.rows)} of {count_of(total, 'run')}; on an unlike machine or with "
        "other "
        f"versions: {elsewhere}."
    )
    return [Words([said]), Fold("Each of them", [Shown(table, ROWS_SHOWN, wide=("what changed",))])]


def fair(material: Material) -> Iterator[Section]:
    """Yield how each method came by its constants."""
    tuning = quality_tables.tuning_table(material.tuned)
    tried = quality_tables.variants_table(material.tried)
    parts: list[Part] = [Words(fairness.statements(material.evidence, material.tuned, material.tried)), Shown(tuning)]
    parts.append(Fold("Settings tried", [Shown(tried, _VARIANTS_SHOWN)]) if tried.rows else Files([tried]))
    yield Section("fairness", "Fairness", parts)


def protocol(material: Material) -> Iterator[Section]:
    """Yield the settings, where they depart from the paper's, and how to read intervals."""
    evidence = material.evidence
    departures = evidence.departures()
    parts: list[Part] = []
    if departures:
        listed = [(key, str(here), str(paper)) for key, (here, paper) in departures.items()]
        parts += [Words(["These runs depart from the paper’s protocol in:"]), Custom("departures", listed)]
    elif any(run.game in GAMES for run in evidence.runs):
        said = "The runs on the paper’s games follow its protocol in every setting, to 200 million frames."
        parts.append(Words([said]))
    whole = quality_tables.protocol_table(evidence.records.runs)
    differing = quality_tables.differing(whole)
    if differing.rows and len(whole.columns) > 2:
        parts += [Heading("Settings that differ"), Shown(differing)]
    parts.append(Fold("All settings, by protocol fingerprint", [Shown(whole)]))
    methods = quality_tables.methods_table(evidence.runs)
    parts += [Fold("Methods and their constants", [Shown(methods, wide=("bonus", "exploration"))])]
    parts += [Heading("How to read intervals"), Words([_intervals(material)])]
    yield Section("protocol", "Protocol", parts)


def _intervals(material: Material) -> str:
    small = (
        "Those of the scores at a glance are of a mean of scores between 0 and 1; where runs score 0 or 1 they are "
        "exact. "
        if material.cells
        else ""
    )
    last = ", in the small worlds the evaluation after the last" if material.cells else ""
    return (
        "Exact intervals (of a share of pairs, a chance, a median difference) hold 95% of the time at any number of "
        "seeds. "
        "Bootstrap intervals and bands describe what was seen: with five seeds they cover the truth less often than "
        "95%, "
        f"and no verdict uses them. {small}Final scores are means of the last ten iterations{last}; where a seed has "
        "not "
        "come so far, a curve is the mean of the others."
    )


def commands(material: Material) -> Iterator[Section]:
    """Yield the commands that make the runs and this report again."""
    evidence = material.evidence
    parts: list[Part] = []
    if loops := reproduce.loops(evidence.runs):
        parts += [Custom("every_command", len(evidence.tuning)), Code(loops)]
    if imported := reproduce.import_command(evidence.records.published, evidence.store):
        parts += [Words(["The published curves:"]), Code([imported])]
    counts = Counter(run.store for run in evidence.records.runs)
    stores = [(store, f"{kind}, {count_of(counts[store], 'run')}") for store, kind in evidence.records.stores.items()]
    parts += [Custom("stores", stores), Words(["This report:"]), Code([material.report_command])]
    yield Section("commands", "Commands", parts)
