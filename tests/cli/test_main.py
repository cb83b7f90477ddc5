"""The command line: its output, its errors and its exit codes."""

import dataclasses
import importlib
import inspect
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import offpiste
from offpiste import methods
from offpiste.cli import COMMANDS, main, study, study_slurm, study_work
from offpiste.cli.train import next_commands
from offpiste.config import BonusConfig, ExplorationConfig, RunConfig, identity
from offpiste.errors import ConfigError
from offpiste.field_docs import field_docs
from offpiste.parsing import from_dict, read_settings, to_toml
from offpiste.store.storage import Folder
from offpiste.worlds.games import GAMES
from offpiste.worlds.registry import WORLDS
from tests.run.test_train import tiny_run


class Output:
    """Exit code and output of one command; `error_text` is the errors without boxes and line breaks."""

    def __init__(self, argv: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
        try:
            self.code: Any = main(argv)
        except SystemExit as end:
            self.code = end.code
        self.out, self.errors = capsys.readouterr()
        self.error_text = re.sub(r"[\s│─╭╮╰╯]+", " ", self.errors)


def printed_config(argv: Sequence[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    output = Output(["train", *argv, "--print-config"], capsys)
    assert output.code == 0, output.errors
    return tomllib.loads(output.out)


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("--version", "-V"):
        output = Output([word], capsys)
        assert (output.code, output.out) == (0, f"{offpiste.__version__}\n")


def test_without_a_command_the_help_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output([], capsys)
    assert output.code == 0
    assert Output(["--help"], capsys).out == output.out
    lines = output.out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines if line.startswith("  ")] == list(COMMANDS)


def test_an_unknown_option_is_refused_with_where_to_look(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(["--hepl"], capsys)
    assert output.code == 2
    assert "no option named '--hepl'; `offpiste --help` lists the commands" in output.errors


HELP = [[name] for name in COMMANDS]
HELP += [["study", name] for name in ("plan", "run", "work", "slurm", "status", "retry", "discard", "stop")]


@pytest.mark.parametrize("command", HELP, ids=" ".join)
def test_the_help_of_a_command_fits_a_terminal(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    output = Output([*command, "--help"], capsys)
    assert output.code == 0
    assert output.out.startswith(f"usage: offpiste {' '.join(command)}")
    assert max(map(len, output.out.splitlines())) <= 80


def every_kind_of_arguments() -> Iterator[type]:
    """Yield the dataclasses whose docstrings are help."""
    for name in ("config", *(f"cli.{name}" for name in COMMANDS.values())):
        module = importlib.import_module(f"offpiste.{name}")
        kinds = [kind for kind in vars(module).values() if isinstance(kind, type)]
        yield from (kind for kind in kinds if dataclasses.is_dataclass(kind) and "offpiste.c" in kind.__module__)


def test_no_docstring_of_arguments_has_a_line_break_that_the_parser_keeps() -> None:
    kinds = list(every_kind_of_arguments())
    assert {RunConfig, study.Run, study_work.Work, study_slurm.Slurm} <= set(kinds)
    for kind in kinds:
        for name, text in field_docs(kind).items():
            assert "\n" not in text, f"{kind.__name__}.{name}"
        for paragraph in inspect.cleandoc(kind.__doc__ or "").split("\n\n"):
            for line in paragraph.splitlines()[1:]:
                assert line[0].isalpha(), f"{kind.__name__}: {line}"


@pytest.mark.parametrize("command", HELP, ids=" ".join)
def test_the_help_of_a_command_has_its_exit_codes_and_numbers_as_people_write_them(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = Output([*command, "--help"], capsys).out
    assert re.search(r"Exit\s+code\s+0:\s", out)
    assert not re.search(r"\de-\d|\d_\d|000\)|None", out)
    assert "(default: )" not in out


def test_a_default_is_shown_as_the_command_line_takes_it(capsys: pytest.CaptureFixture[str]) -> None:
    out = re.sub(r"[\s│]+", " ", Output(["train", "--help"], capsys).out)
    for text in ("resume the run. (default: 200M)", "Adam step size. (default: 0.0000625)", "(default: 20k)"):
        assert text in out


@pytest.mark.parametrize("command", ["games", "methods"])
def test_a_list_fits_a_terminal_and_has_no_negative_zero(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = Output([command], capsys).out
    assert max(map(len, out.splitlines())) <= 80
    assert "-0.00" not in out
    assert "e-0" not in out


def test_games_lists_the_twelve_of_the_paper_and_then_the_worlds_outside_the_ale(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = Output(["games"], capsys)
    assert output.code == 0
    lines = output.out.splitlines()[1:]
    assert [text.split()[0] for text in lines] == list(WORLDS)
    assert list(WORLDS)[:12] == list(GAMES)
    assert re.fullmatch(r"montezuma_revenge +montezuma +0\.0 +4,753\.3 +level, room, x, y", lines[0])
    assert next(text for text in lines if text.startswith("asterix")).endswith("coarse frame")
    deep_sea = next(text for text in lines if text.startswith("deep_sea"))
    assert re.fullmatch(r"deep_sea_N +– +– +–  x, y", deep_sea)


def test_games_every_lists_all_names(capsys: pytest.CaptureFixture[str]) -> None:
    names = Output(["games", "--every"], capsys).out.split()
    assert len(names) > 60
    assert set(GAMES) < set(names)
    assert names == sorted(names)


@pytest.mark.parametrize("argv", [[], ["--seed", "3", "--agent.convolution-channels", "1", "2", "3"]])
def test_a_printed_configuration_parses_to_the_same_configuration(
    argv: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = Output(["train", *argv, "--print-config"], capsys)
    file = tmp_path / "settings.toml"
    file.write_text(output.out)
    assert Output(["train", "--config", str(file), "--print-config"], capsys).out == output.out
    assert Output(["train", f"--config={file}", "--print-config"], capsys).out == output.out
    expected = RunConfig()
    if argv:
        agent = dataclasses.replace(expected.agent, convolution_channels=(1, 2, 3))
        expected = dataclasses.replace(expected, seed=3, agent=agent)
    assert from_dict(RunConfig, read_settings(file)) == expected


@pytest.fixture
def other_method(monkeypatch: pytest.MonkeyPatch) -> None:
    other = methods.Method(
        "Other", ExplorationConfig(epsilon_final=0.5, epsilon_evaluation=0.25), {"atari": BonusConfig(scale=3.0)}
    )
    monkeypatch.setitem(methods.METHODS, "other", other)


def test_the_command_line_overrides_the_file_and_the_file_the_method(
    other_method: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def chosen(*argv: str) -> tuple[float, float, float, int]:
        found = printed_config(argv, capsys)
        exploration = found["exploration"]
        return exploration["epsilon_final"], exploration["epsilon_evaluation"], found["bonus"]["scale"], found["seed"]

    file = tmp_path / "settings.toml"
    file.write_text("seed = 7\n[exploration]\nepsilon_final = 0.4\n")
    assert chosen() == (0.01, 0.001, 1.0, 0)
    assert chosen("--method", "other") == (0.5, 0.25, 3.0, 0)
    assert chosen("--method=other", "--config", str(file)) == (0.4, 0.25, 3.0, 7)
    assert chosen("--config", str(file), "--method", "other", "--exploration.epsilon-final", "0.3") == (
        0.3,
        0.25,
        3.0,
        7,
    )
    assert chosen("--exploration.epsilon-final", "0.3", "--config", str(file)) == (0.3, 0.001, 1.0, 7)


def test_a_method_in_the_file_sets_its_constants_and_another_on_the_command_line_is_refused(
    other_method: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('method = "other"\n')
    found = printed_config(["--config", str(file)], capsys)
    assert (found["method"], found["exploration"]["epsilon_final"]) == ("other", 0.5)
    assert printed_config(["--config", str(file), "--method", "other"], capsys) == found
    output = Output(["train", "--config", str(file), "--method", "epsilon_greedy"], capsys)
    assert output.code == 1
    message = f"--method must be 'other', as in {file}, got 'epsilon_greedy'; remove `method`"
    assert message in output.errors


@pytest.mark.parametrize(
    ("text", "frames"), [("200k", 200_000), ("1.5M", 1_500_000), ("2G", 2 * 10**9), ("20_000", 20_000), ("0", 0)]
)
def test_a_count_may_have_a_suffix(text: str, frames: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed_config(["--frames", text], capsys)["frames"] == frames


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("200x", "Error parsing --frames: a count must be a number, got '200x'; write it as 20000, 20k or 200M"),
        ("-1", "a count must be a whole number >= 0 and < 10**18, got '-1'"),
        ("0.5", "a count must be a whole number >= 0 and < 10**18, got '0.5'"),
    ],
)
def test_an_invalid_count_is_refused(text: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(["train", "--frames", text, "--print-config"], capsys)
    assert output.code == 2
    assert message in output.error_text
    assert output.out == ""


@pytest.mark.parametrize(
    ("argv", "meant"),
    [
        (["train", "--frmes", "10"], "--frames INT"),
        (["train", "--agent.learnin-rate", "0.1"], "--agent.learning-rate FLOAT"),
        (["games", "--evry"], "--every"),
    ],
)
def test_an_unknown_option_is_refused_with_the_closest_name(
    argv: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = Output(argv, capsys)
    assert output.code == 2
    assert f"Unrecognized options: {argv[1]}" in output.error_text
    assert f"Perhaps you meant: {meant}" in output.error_text
    assert f"For full helptext, run offpiste {argv[0]} --help" in output.error_text


def test_a_mistyped_command_is_refused_with_the_closest_name(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(["trian"], capsys)
    assert output.code == 2
    assert output.errors == "offpiste: no command named 'trian'; did you mean 'train'?\n"


def test_an_unknown_command_is_refused_with_the_known_names(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(["xyzzy"], capsys)
    assert output.code == 2
    assert ", ".join(sorted(COMMANDS)) in output.errors


def test_an_unknown_key_in_a_file_is_refused_with_the_closest_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[agent]\nlearning_rat = 0.1\n")
    output = Output(["train", "--config", str(file)], capsys)
    assert output.code == 1
    assert output.errors == "offpiste: no setting named 'agent.learning_rat'; did you mean 'agent.learning_rate'?\n"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--config", "missing.toml"], "there is no file missing.toml"),
        (["--method", "epsilon_gredy"], "no method named 'epsilon_gredy'; did you mean 'epsilon_greedy'?"),
        (["--method=rnb"], "no method named 'rnb'; did you mean 'rnd'?"),
        (["--agent.discount", "2"], "agent.discount must be <= 1, got 2.0"),
    ],
)
def test_a_bad_setting_is_one_line_and_exit_code_1(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = Output(["train", *argv], capsys)
    assert output.code == 1
    assert output.errors.startswith(f"offpiste: {message}")
    assert output.errors.count("\n") == 1


def test_an_unknown_game_is_refused_and_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(["train", "--game", "montezuma_reveng", "--out", str(tmp_path)], capsys)
    assert output.code == 1
    assert output.errors.endswith("offpiste: no game named 'montezuma_reveng'; did you mean 'montezuma_revenge'?\n")
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_overrides_options_of_a_bonus_in_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(
        '[bonus.options]\nrate = 0.5\nsizes = [1, 2]\nkind = "x"\nflag = true\n[bonus.options.inner]\ndeep = 1\n'
    )
    options = {"rate": 0.5, "sizes": [1, 2], "kind": "x", "flag": True, "inner": {"deep": 1}}
    assert printed_config(["--config", str(file)], capsys)["bonus"]["options"] == options
    argv = [
        "--config",
        str(file),
        "--bonus.options.rate",
        "0.7",
        "--bonus.options.sizes=[3]",
        "--bonus.options.inner.deep",
    ]
    found = printed_config([*argv, "2k"], capsys)["bonus"]["options"]
    assert found == options | {"rate": 0.7, "sizes": [3], "inner": {"deep": 2_000}}
    output = Output(["train", "--config", str(file), "--bonus.options.rate.deep", "2"], capsys)
    assert (output.code, output.errors) == (
        1,
        "offpiste: bonus.options.rate.deep: rate must be a table of options, got 0.5\n",
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.7", 0.7),
        ("-1e-3", -0.001),
        ("7", 7),
        ("2k", 2_000),
        ("true", True),
        ("[1, 2]", [1, 2]),
        ("[]", []),
        ("'7'", "7"),
        ("sum", "sum"),
        ("a=b", "a=b"),
        ("2019-06-14", "2019-06-14"),
        ("", ""),
    ],
)
def test_an_option_of_a_bonus_is_parsed_as_toml_or_else_is_a_string(
    text: str, value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for argv in (["--bonus.options.some-key", text], [f"--bonus.options.some_key={text}"]):
        options = printed_config(["--method", "icm", *argv], capsys)["bonus"]["options"]
        assert options == {"forward_weight": 0.005, "some_key": value}
        assert type(options["some_key"]) is type(value)


def test_the_last_value_of_a_repeated_option_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--method=cts", "--method", "icm", "--bonus.options.a", "1", "--bonus.options.a=2"]
    found = printed_config([*argv, "--game", "freeway", "--game=deep_sea_5"], capsys)
    assert (found["method"], found["bonus"]["options"]["a"], found["game"]) == ("icm", 2, "deep_sea_5")
    assert found["world"]["frame_skip"] == 1


@pytest.mark.parametrize("option", ["--method", "--bonus", "--bonus.name"])
def test_an_option_without_its_value_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(["train", option, "--print-config"], capsys)
    assert output.code == 2
    assert option in output.error_text


@pytest.mark.parametrize("command", [["train", "--bonus", "rnd"], ["check-bonus", "rnd"]])
def test_an_option_of_a_bonus_without_its_value_is_refused(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    output = Output([*command, "--bonus.options.rate"], capsys)
    message = "offpiste: --bonus.options.rate needs a value, as in --bonus.options.rate VALUE\n"
    assert (output.code, output.errors) == (1, message)


@dataclasses.dataclass(frozen=True)
class Inner:
    text: str = ""


@dataclasses.dataclass(frozen=True)
class Kinds:
    text: str = ""
    flag: bool = False
    count: int = 0
    inner: Inner = dataclasses.field(default_factory=Inner)


class WithKinds:
    Options = Kinds


def test_an_option_of_a_bonus_is_parsed_by_its_type(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--bonus", f"{__name__}:WithKinds", "--bonus.options.text", "20k", "--bonus.options.flag", "True"]
    argv += ["--bonus.options.count", "20k", "--bonus.options.inner.text=5"]
    options = printed_config(argv, capsys)["bonus"]["options"]
    assert options == {"text": "20k", "flag": True, "count": 20_000, "inner": {"text": "5"}}


def test_a_bonus_is_added_by_its_name_or_class(capsys: pytest.CaptureFixture[str]) -> None:
    added = printed_config(["--bonus", "my_module:MyBonus"], capsys)
    assert (added["method"], added["bonus"]["name"], added["bonus"]["scale"]) == ("my_bonus", "my_module:MyBonus", 1.0)
    assert printed_config(["--bonus=my_module:MyBonus"], capsys) == added
    assert printed_config(["--bonus.name", "my_module:MyBonus"], capsys) == added
    assert printed_config(["--bonus", "rnd"], capsys) == printed_config(["--method", "rnd"], capsys)

    argv = ["--method", "noisy_nets", "--bonus", "my_module:MyBonus", "--bonus.scale", "0.5"]
    noisy = printed_config(argv, capsys)
    assert (noisy["method"], noisy["exploration"]["noisy"], noisy["bonus"]["scale"]) == (
        "noisy_nets+my_bonus",
        True,
        0.5,
    )
    own = printed_config(["--method", "mine", "--bonus", "my_module:MyBonus", "--game", "deep_sea_5"], capsys)
    assert (own["method"], own["exploration"]["noisy"], own["world"]["frame_skip"]) == ("mine", False, 1)


@pytest.mark.parametrize(
    "argv",
    [
        ["--bonus", "my_module:MyBonus", "--bonus.options.a", "1"],
        ["--method", "noisy_nets", "--bonus", "my_module:MyBonus"],
        ["--method", "mine", "--bonus", "my_module:MyBonus"],
        ["--bonus", "my_module:Cts"],
    ],
)
def test_a_printed_configuration_with_a_bonus_parses_to_the_same_configuration(
    argv: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = Output(["train", *argv, "--print-config"], capsys)
    file = tmp_path / "settings.toml"
    file.write_text(output.out)
    assert Output(["train", "--config", str(file), "--print-config"], capsys).out == output.out
    bonus = argv[argv.index("--bonus") + 1]
    assert Output(["train", "--config", str(file), "--bonus", bonus, "--print-config"], capsys).out == output.out


def test_a_bonus_on_the_command_line_must_be_that_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('[bonus]\nname = "mine:One"\nscale = 3\n')
    found = printed_config(["--config", str(file)], capsys)
    assert (found["method"], found["bonus"]["name"], found["bonus"]["scale"]) == ("epsilon_greedy", "mine:One", 3.0)
    found = printed_config(["--config", str(file), "--method", "own"], capsys)
    assert (found["method"], found["bonus"]["name"], found["bonus"]["scale"]) == ("own", "mine:One", 3.0)
    output = Output(["train", "--config", str(file), "--bonus", "mine:Two"], capsys)
    assert output.code == 1
    assert f"--bonus must be 'mine:One', as in {file}, got 'mine:Two'; remove `method`" in output.errors
    file.write_text('method = "noisy_nets"\n[bonus]\nscale = 3\n')
    found = printed_config(["--config", str(file), "--bonus", "mine:Two"], capsys)
    assert (found["method"], found["bonus"]["name"], found["bonus"]["scale"]) == ("noisy_nets+two", "mine:Two", 3.0)
    assert found["exploration"]["noisy"]


@pytest.mark.parametrize("line", ["method = 3", "game = 3", "bonus = 3", "bonus.name = 3", "bonus.options = 3"])
def test_a_name_of_the_wrong_type_in_a_file_is_refused(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(line)
    output = Output(["train", "--config", str(file), "--print-config"], capsys)
    assert output.code == 1
    assert re.fullmatch(rf"offpiste: {line.split()[0]} must be a (string|table), got 3\n", output.errors)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["rdn"], "no bonus named 'rdn'; did you mean 'rnd'?"),
        (["nowhere_at_all:Bonus"], "cannot load the bonus 'nowhere_at_all:Bonus': No module named 'nowhere_at_all'"),
        (["rnd", "--bonus.options.learning-rat", "1"], "no setting named 'bonus.options.learning_rat'; did you mean "),
        (["rnd", "--bonus.options.learning-rate", "fast"], "bonus.options.learning_rate must be a float, got 'fast'"),
        (["icm", "--bonus.options.forward-weight=2"], "bonus.options.forward_weight must be <= 1, got 2.0"),
    ],
)
def test_a_bonus_that_cannot_be_made_is_refused_and_nothing_is_written(
    argv: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = Output(["train", "--out", str(tmp_path), "--bonus", *argv], capsys)
    assert output.code == 1
    assert output.errors.splitlines()[-1].startswith(f"offpiste: {message}")
    assert list(tmp_path.iterdir()) == []


def test_the_help_of_train_lists_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(["train", "--help"], capsys)
    assert output.code == 0
    settings = {*identity(RunConfig()), "frames", "machine.device", "machine.threads", "machine.checkpoint_minutes"}
    assert len(settings) > 25
    for name in settings - {"bonus.options"}:
        flag = name.replace("_", "-")
        assert re.search(rf"--{re.escape(flag)}\b", output.out), name
    for flag in ("--out STR", "--config FILE", "--print-config", "--accept-version"):
        assert flag in output.out
    assert "--bonus.options.OPTION VALUE" in re.sub(r"[\s│]+", " ", output.out)
    assert re.search(r"module:Class of your own, or none; --bonus for short", re.sub(r"[\s│]+", " ", output.out))
    assert "--no-print-config" not in output.out


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("settings") / "settings.toml"
    file.write_text(to_toml(dataclasses.replace(tiny_run(), frames=40)))
    return file


def test_the_commands_after_training_trust_the_code_that_was_trained() -> None:
    config = RunConfig(game="maze:Maze", bonus=BonusConfig(name="simhash:SimHash"))
    assert [*next_commands(config, "runs/seed-0", "runs")] == [
        "  offpiste watch runs/seed-0 --trust-world --trust-bonus --out episode.mp4",
        "  offpiste report runs --world maze:Maze --out report",
    ]


def test_train_eval_and_digest_work_on_one_folder(
    settings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["train", "--config", str(settings), "--frames", "200", "--seed", "4", "--out", str(tmp_path)]
    run = tmp_path / "montezuma_revenge" / "epsilon_greedy" / "seed-4"
    output = Output(argv, capsys)
    assert output.code == 0, output.errors
    lines = output.errors.splitlines()
    assert output.out == ""
    assert lines[0] == f"montezuma_revenge/epsilon_greedy/seed-4, to 200 frames, in {run}"
    assert re.fullmatch(
        r"4 frames \(2\.0%\), – frames/s, ETA once it learns, iteration 1, episode 0, ε 1\.000, .*", lines[1]
    )
    assert lines[-3:] == [
        f"200 frames are done; results in {run}",
        f"  offpiste watch {run} --out episode.mp4",
        f"  offpiste report {tmp_path} --out report",
    ]
    assert read_settings(settings)["frames"] == 40

    output = Output(["digest", str(run)], capsys)
    assert (output.code, bool(re.fullmatch(r"[0-9a-f]{64}\n", output.out))) == (0, True)
    assert Output(argv, capsys).code == 0
    assert Output(["digest", str(run)], capsys).out == output.out

    played = Output(["eval", str(run), "--episodes", "2", "--seed", "1"], capsys)
    assert played.code == 0
    assert played.out == (
        "episode 1: return 0 in 50 steps\nepisode 2: return 0 in 50 steps\nmean return 0 over 2 episodes\n"
    )
    assert Output(["eval", str(run), "--episodes", "2", "--seed", "1", "--iteration", "1"], capsys).code == 0
    refused = Output(["eval", str(run), "--iteration", "3"], capsys)
    assert refused.code == 1
    assert refused.errors.startswith(f"offpiste: {run} keeps no weights of iteration 3; ")

    other = Output([*argv, "--agent.discount", "0.5"], capsys)
    assert other.code == 1
    assert "agent.discount is 0.99 there and 0.5 here" in other.errors


def test_a_quiet_run_without_problems_prints_nothing(
    settings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = Output(["train", "--config", str(settings), "--out", str(tmp_path), "--quiet"], capsys)
    assert (output.code, output.out, output.errors) == (0, "", "")
    assert (tmp_path / "montezuma_revenge" / "epsilon_greedy" / "seed-0" / "episodes.parquet").exists()


@pytest.mark.slow
def test_piped_output_has_no_colour() -> None:
    """Even if the environment is that of a terminal with colours."""
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        environment.pop(name, None)
    for argv in (["--help"], ["train", "--help"], ["train", "--gme", "x"], ["demo", "--episodes", "1"]):
        done = subprocess.run(
            [sys.executable, "-m", "offpiste", *argv], capture_output=True, text=True, env=environment
        )
        assert done.stdout or done.stderr
        assert "\x1b" not in done.stdout + done.stderr, argv


def test_a_run_below_a_url_keeps_the_options_and_hides_the_keys_of_the_url(
    settings: Path, new_s3_location: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    location: str = new_s3_location()
    out = location.replace("s3://", "s3://testing:secret@")
    output = Output(["train", "--config", str(settings), "--frames", "8", "--out", out], capsys)
    assert output.code == 0, output.errors
    run = Folder(location).below("montezuma_revenge/epsilon_greedy/seed-0")
    assert "run.json" in run.list()
    assert output.errors.count(run.location) == 3
    assert "secret" not in output.errors


def test_a_local_folder_may_have_a_question_mark_in_its_name(
    settings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        Output(["train", "--config", str(settings), "--frames", "0", "--out", str(tmp_path / "why?")], capsys).code == 0
    )
    assert (tmp_path / "why?" / "montezuma_revenge" / "epsilon_greedy" / "seed-0" / "run.json").exists()


@pytest.mark.parametrize("command", ["eval", "digest"])
def test_a_folder_without_a_run_is_an_error(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = Output([command, str(tmp_path)], capsys)
    assert output.code == 1
    assert re.match(rf"offpiste: {re.escape(str(tmp_path))} holds no (run|checkpoint)", output.errors)


def test_an_interrupt_is_one_line_and_exit_code_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("offpiste.cli.games.main", interrupted)
    output = Output(["games"], capsys)
    assert (output.code, output.errors) == (130, "offpiste: interrupted\n")


def test_commands_that_compute_nothing_do_not_import_torch() -> None:
    script = """
import sys
from offpiste.cli import main
assert main(["--version"]) == main(["games"]) == main(["games", "--every"]) == main(["methods"]) == 0
assert main(["train", "--print-config"]) == main(["train", "--print-config", "--bonus", "nowhere:Bonus"]) == 0
try:
    main(["train", "--help"])
except SystemExit as end:
    assert end.code == 0
loaded = {"torch", "ray", "numba", "tensorboard"} & set(sys.modules)
assert not loaded, loaded
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_methods_are_found_by_name() -> None:
    assert methods.find("epsilon_greedy") is methods.METHODS["epsilon_greedy"]
    with pytest.raises(ConfigError, match="no method named 'epsilon'"):
        methods.find("epsilon")


def test_a_pipe_closed_by_its_reader_causes_no_traceback() -> None:
    program = "from offpiste.cli import main; import sys; sys.exit(main(['methods']))"
    ends = subprocess.run(
        ["bash", "-c", f'set -o pipefail; {sys.executable} -c "{program}" | true'], capture_output=True, text=True
    )
    assert "Traceback" not in ends.stderr
    assert "BrokenPipe" not in ends.stderr
