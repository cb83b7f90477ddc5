"""Are the verdicts and intervals of the analysis right? Studies made up so that the truth is known, thousands of times.

Scores are normal; bimodal (one seed in five is far above the rest); or unequal: the method that others are held against
jumps between two values around theirs, which deceives tests that suppose equal spreads. At 3, 5, 10 and 20 seeds:

- coverage of every interval. Bar: exact ones at least 95%; bootstrap ones are printed as they are.
- for every finding, how often its verdict is wrong where the truth lies on the very edge of being the other way, and
  how often it is right where the effect is there, and where it is absent. Bars: wrong in 5% at most; right in 80% at
  least with 20 seeds, if the effect is large; and never a verdict from fewer seeds than it says it needs. How often
  small effects are seen is printed as it is, and so are small worlds in which a run solves its world or does not;
- for the methods beside ε-greedy, how often a family has any wrong call where no method differs. Bar: 5% at most;
- for the findings of *Which β?*, how often any claim is wrong where nothing differs, and how often right beside what
  was planned. Bar: wrong in 5% at most;
- for the comparisons of the ablation of RND, how often one is shown, and how often any is where no arm differs. Bar: 5%
  in each direction at most.

Frequencies of n studies may miss a bar by three standard errors. `--quick` takes a fraction of the studies.
"""

import argparse
import sys

import numpy as np

from benchmarks.validation.calibration_atari_small import check_atari_small
from benchmarks.validation.calibration_calls import check_calls
from benchmarks.validation.calibration_intervals import check_intervals, check_rank_test
from benchmarks.validation.calibration_rnd_ablation import check_rnd_ablation
from benchmarks.validation.calibration_studies import LEVEL, SEEDS, draw, shown, slack
from benchmarks.validation.calibration_truths import RIVALS, SOLVED, TRUTHS, Effects, Truth
from benchmarks.validation.calibration_which_beta import check_which_beta
from offpiste.analysis.evidence import BENCHMARKS
from offpiste.analysis.findings import BASELINE, Benchmark, Finding, Scores, judge_one
from offpiste.seeding import stream
from offpiste.worlds.scores import reference_scores

POWER = 0.8


def main() -> int:
    """Print the tables and the figure, and return 0 if all bars hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer studies, under a minute")
    parser.add_argument("--studies", type=int, help="made-up studies per truth, kind and number of seeds")
    options = parser.parse_args()
    studies = options.studies or (25 if options.quick else 400)
    missed = [*check_intervals(10 * studies, 40 if options.quick else 200), *check_rank_test(4 * studies)]
    missed += check_calls(5 * studies)
    missed += check_which_beta(studies)
    missed += check_atari_small(studies)
    missed += check_rnd_ablation(studies)
    errors: list[float] = []
    powers: list[float] = []
    judged = [(benchmark, finding) for benchmark in BENCHMARKS for finding in benchmark.findings]
    for benchmark, finding in judged:
        print(f"\n{finding.key}: how often the verdict is as named, with {', '.join(map(str, SEEDS))} seeds")
        for truth in TRUTHS[finding.key]:
            for kind in truth.kinds:
                shares = {seeds: verdict_shares(benchmark, finding, truth, kind, seeds, studies) for seeds in SEEDS}
                about = f"{finding.key} ({truth.name}, {kind})"
                for named, label in ((truth.right, "right"), (truth.wrong, "wrong")):
                    if named is not None:
                        row = {seeds: share[named] for seeds, share in shares.items()}
                        print(f"  {truth.name:<40} {kind:<8} {named:<12} {label}  {shown(row)}")
                if truth.wrong is not None:
                    wrong = max(share[truth.wrong] for share in shares.values())
                    errors.append(wrong)
                    if wrong > LEVEL + slack(LEVEL, studies):
                        missed.append(f"{about} is {truth.wrong} in {wrong:.1%}")
                if truth.right is not None and truth.barred:
                    right = shares[SEEDS[-1]][truth.right]
                    powers.append(right)
                    if right < POWER - slack(POWER, studies):
                        missed.append(f"{about} is {truth.right} in {right:.1%} only")
                if any(share["too early"] for share in shares.values()):
                    missed.append(f"{about} has a verdict from too few seeds")
    print()
    for line in missed:
        print(f"MISSED: {line}")
    print(
        f"{len(judged)} findings, {studies} studies each: wrong in {max(errors):.1%} at the worst edge of the truth, "
        f"right in {min(powers):.1%} at least with {SEEDS[-1]} seeds; {len(missed)} bars missed"
    )
    return 1 if missed else 0


def made_up(
    generator: np.random.Generator, finding: Finding, effects: Effects, kind: str, seeds: int, jumping: str
) -> Scores:
    """Return the scores of one study, in points, of the games and methods that a finding is about."""
    cells = [(game, method) for games, methods in finding.needs for game in games for method in methods]
    jumps = np.array([[method == jumping] for _, method in cells])
    noise = draw(generator, kind, (len(cells), seeds), jumping=jumps)
    scores: dict[str, dict[str, dict[int, float]]] = {}
    for (game, method), own in zip(cells, noise, strict=True):
        effect = effects.get((game, method), 0.0)
        shares = generator.random(seeds) < effect if kind == SOLVED else 0.5 + effect + own
        points = [reference_scores(game).score_at(float(share)) for share in shares]
        scores.setdefault(game, {})[method] = dict(enumerate(points))
    return scores


def verdict_shares(
    benchmark: Benchmark, finding: Finding, truth: Truth, kind: str, seeds: int, studies: int
) -> dict[str, float]:
    """Return how often each verdict comes, and how often one comes from fewer seeds than it says it needs."""
    generator = stream(seeds, f"calibration {finding.key} {truth.name} {kind}")
    jumping = RIVALS.get(finding.key, BASELINE)
    counts = dict.fromkeys(("supported", "contradicted", "not enough evidence", "too early"), 0)
    for _ in range(studies):
        scores = made_up(generator, finding, truth.effects(generator), kind, seeds, jumping)
        verdict = judge_one(benchmark, finding, scores)
        counts[verdict.verdict] += 1
        needed = {"supported": verdict.part.min_seeds_for, "contradicted": verdict.part.min_seeds_against}
        counts["too early"] += seeds < needed.get(verdict.verdict, 0)
    return {name: count / studies for name, count in counts.items()}


if __name__ == "__main__":
    sys.exit(main())
