"""A method looks the same everywhere, and no two look alike."""

import re

import pytest
from matplotlib.lines import Line2D

from offpiste.analysis.names import frames_text, label, ordered_games, ordered_methods, spell_out, title
from offpiste.analysis.small_worlds import LADDER
from offpiste.methods import METHODS, PAPER_METHODS
from offpiste.report.look import MUTED, PAGE_COLOURS, PUBLISHED_GREYS, SOLID, file_name, looks, series_look


def test_our_methods_look_the_same_whatever_stands_beside_them() -> None:
    together = looks([*METHODS, "mine"])
    for method in METHODS:
        assert looks([method])[method] == together[method]
    assert len({(look.colour, look.dashes) for look in looks(METHODS).values()}) == len(METHODS)


def test_the_oracles_are_grey_lines_that_are_not_solid_and_told_apart() -> None:
    drawn = looks(METHODS)
    oracles = [drawn[method] for method in (*LADDER, "oracle_left")]
    assert {look.colour for look in oracles} == {MUTED} < set(PAGE_COLOURS)
    assert MUTED not in {look.colour for look in drawn.values() if look not in oracles}
    assert len({look.dashes for look in oracles} - {SOLID}) == len({look.marker for look in oracles}) == 4


def test_a_method_of_somebodys_own_keeps_its_look_beside_those_of_the_paper() -> None:
    assert looks(["mine"])["mine"] == looks(["mine", *PAPER_METHODS])["mine"]


STRANGERS = [f"bonus_{number}" for number in range(35)]


def test_as_lines_and_as_points_no_two_of_our_methods_and_35_others_look_alike() -> None:
    """Points have no dashes, and short lines no markers."""
    found = looks([*METHODS, *STRANGERS]).values()
    assert len({(look.colour, look.dashes) for look in found}) == len(METHODS) + 35
    assert len({(look.colour, look.marker) for look in found}) == len(METHODS) + 35


def test_whatever_it_is_called_a_bonus_of_somebodys_own_has_no_published_methods_colour_and_dashes() -> None:
    ours = {(look.colour, look.dashes) for look in looks(METHODS).values()}
    alone = {(look.colour, look.dashes) for number in range(500) for look in looks([f"mine_{number}"]).values()}
    assert len(alone) == 35
    assert not alone & ours


def test_a_look_depends_on_the_name_alone_unless_two_names_give_the_same() -> None:
    alone = {name: looks([name])[name] for name in STRANGERS}
    together = looks([*reversed(STRANGERS), *METHODS])
    first = {(look.colour, look.dashes): name for name, look in sorted(alone.items(), reverse=True)}
    kept = [name for name in STRANGERS if together[name] == alone[name]]
    assert set(first.values()) <= set(kept)
    assert len(first) < len(STRANGERS)  # or nothing would have been displaced


def test_every_look_can_be_drawn() -> None:
    for look in looks([*METHODS, *STRANGERS]).values():
        Line2D([0], [0], color=look.colour, linestyle=look.dashes, marker=look.marker)


def test_more_methods_than_there_are_looks_are_still_drawn() -> None:
    assert len(looks(f"bonus_{number}" for number in range(100))) == 100


def test_published_series_are_told_apart_and_from_every_method() -> None:
    tf, jax = series_look("dopamine tf"), series_look("dopamine jax")
    assert tf.colour != jax.colour
    assert tf.dashes != jax.dashes
    assert {tf.colour, jax.colour} == set(PUBLISHED_GREYS) < set(PAGE_COLOURS)
    assert not {tf.colour, jax.colour} & {look.colour for look in looks(PAPER_METHODS).values()}


def test_no_name_that_a_store_makes_up_is_shown_as_another() -> None:
    games = ["pong", "Pong", "PONG", "‘Pong’", "p_ong", "p ong", "Montezuma’s Revenge", "montezuma_revenge"]
    games += ["montezuma revenge", "Key and Door", "key_door", "Deep Sea 12", "deep_sea_12"]
    assert len({title(game) for game in games}) == len(games)
    assert [title(game) for game in games[:3]] == ["Pong", "‘Pong’", "PONG"]
    methods = [*METHODS, *(known.label for known in METHODS.values()), "‘CTS’", "‘‘CTS’’", "mine", "‘mine’"]
    assert len({label(method) for method in methods}) == len(methods)
    assert (label("cts"), label("CTS"), label("mine")) == ("CTS", "‘CTS’", "mine")


def test_order_is_that_of_the_paper_then_by_name() -> None:
    assert ordered_methods(["zeta", "rnd", "alpha", "epsilon_greedy"]) == ["epsilon_greedy", "rnd", "alpha", "zeta"]
    assert ordered_games(["pong", "freeway", "montezuma_revenge"]) == ["montezuma_revenge", "freeway", "pong"]


@pytest.mark.parametrize(
    ("frames", "text"), [(0, "0"), (800, "800"), (8_000, "8k"), (1_500_000, "1.5M"), (200e6, "200M"), (204e9, "204G")]
)
def test_frames_in_short(frames: float, text: str) -> None:
    assert frames_text(frames) == text


def test_games_are_named_as_people_write_them() -> None:
    assert [title(game) for game in ("montezuma_revenge", "private_eye", "deep_sea_6")] == [
        "Montezuma’s Revenge",
        "Private Eye",
        "Deep Sea 6",
    ]


def test_a_sentence_names_games_and_methods_as_people_do() -> None:
    said = spell_out("weakest: rnd beats epsilon_greedy on montezuma_revenge; randomly, cts/hero, Montezuma's")
    assert said == "weakest: RND beats ε-greedy on Montezuma’s Revenge; randomly, CTS/Hero, Montezuma’s"


def test_files_about_a_game_are_called_by_letters_digits_and_underscores() -> None:
    assert [file_name(game) for game in ("montezuma_revenge", "deep_sea_6")] == [
        "game_montezuma_revenge",
        "game_deep_sea_6",
    ]
    odd = ["../x", "/etc/x", "Pong", "pong ", "x" * 300, "a#b?c%d", "a\0b", "", ".", "ünï"]
    names = [file_name(game) for game in odd]
    assert len(set(names)) == len(odd)
    assert all(re.fullmatch(r"game_[a-z0-9_-]{1,60}", name) for name in names)
