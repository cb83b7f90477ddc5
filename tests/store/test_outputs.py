"""Outputs replace what has their names, follow no link, and come whole or not at all."""

from pathlib import Path

import pytest

from offpiste.errors import StoreError
from offpiste.store.outputs import refuse_link, replacing


def write(out: Path, text: str, *names: str) -> None:
    """Write a text as outputs of these names; an empty name is an error on the way."""
    with replacing(out) as new:
        for name in names:
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            (new / name).write_text(text)


def below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_files_replace_those_of_the_same_names_and_leave_others(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    write(out, "old", "page", "a/same", "a/b/old")
    write(out, "new", "page", "a/same", "a/b/new")
    assert below(out) == {"a", "a/b", "a/b/old", "a/b/new", "a/same", "page"}
    assert (out / "a" / "same").read_text() == (out / "page").read_text() == "new"
    assert (out / "a" / "b" / "old").read_text() == "old"


def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    mine, out = tmp_path / "mine", tmp_path / "out"
    mine.write_text("mine")
    out.mkdir()
    (out / "page").symlink_to(mine)
    write(out, "page", "page")
    assert mine.read_text() == "mine"
    assert (out / "page").read_text() == "page"
    assert not (out / "page").is_symlink()


def test_a_folder_in_the_output_that_is_a_link_is_refused_before_anything_is_replaced(tmp_path: Path) -> None:
    mine, out = tmp_path / "mine", tmp_path / "out"
    mine.mkdir()
    out.mkdir()
    (out / "tables").symlink_to(mine)
    with pytest.raises(StoreError, match=r"tables must be a folder, and is a link to .*mine.*--out"):
        write(out, "x", "page", "tables/runs.csv")
    assert below(out) == {"tables"}
    assert not below(mine)


def test_an_error_on_the_way_leaves_everything_as_it_was(tmp_path: Path) -> None:
    write(tmp_path, "old", "page")
    with pytest.raises(StoreError, match="Is a directory"):
        write(tmp_path, "half", "page", "")
    assert (tmp_path / "page").read_text() == "old"
    assert below(tmp_path) == {"page"}


def test_a_folder_that_cannot_be_made_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot write to .*file/out .*may you write there"):
        write(tmp_path / "file" / "out", "x", "page")


def test_only_a_link_is_refused(tmp_path: Path) -> None:
    refuse_link(tmp_path)
    refuse_link(tmp_path / "none")
    (tmp_path / "link").symlink_to(tmp_path / "none")
    with pytest.raises(StoreError, match="link must be a folder, and is a link"):
        refuse_link(tmp_path / "link")
