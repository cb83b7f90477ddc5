"""Credentials in a URL are never shown, neither in a location nor in an error, whatever characters they hold."""

import traceback
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offpiste.cli import main
from offpiste.errors import StoreError
from offpiste.store import bucket
from offpiste.store.storage import Folder

NOBODY = "region=us-east-1&scheme=http&endpoint_override=127.0.0.1:1"
"""Options of an S3 server that does not exist."""
SHAPES = [
    f"s3://hush:SECRET@bucket/runs?{NOBODY}",
    f"s3://SECRET@bucket/runs?{NOBODY}",
    f"s3://SECRET:hush@bucket/runs?{NOBODY}",
    f"s3://hush:SECRET@?{NOBODY}",
    f"S3://hush:SECRET@bucket/runs?{NOBODY}",
    f" s3://hush:SECRET@bucket/runs?{NOBODY}",
    f"x/s3://hush:SECRET@bucket/runs?{NOBODY}",
    f"s3://bucket/runs?{NOBODY}&secret_key=SECRET",
    f"s3://bucket/runs?secret_key=SECRET&{NOBODY}",
    f"s3://bucket/runs?{NOBODY}&SECRET",
    "s3://bucket/runs?region=x&endpoint_override=http://hush:SECRET@host",
    "s3://bucket/runs?region=x&endpoint_override=http://hush%3ASECRET%40host",
    f"s3://bucket/runs?{NOBODY}#SECRET",
    "s3:/hush:SECRET@bucket/runs",
    "s3:hush:SECRET@bucket/runs",
    "gs:/hush:SECRET@bucket/runs",
    "gs://bucket/runs?access_token=SECRET",
    "gs://bucket/runs?access_token=SECRET&region=hush",
    "gs://hush:SECRET@bucket/runs",
    "abfs://container:SECRET@account.dfs.core.windows.net/runs",
    "abfs://container@account.dfs.core.windows.net/runs?sas_token=SECRET",
    "nowhere://hush:SECRET@host/runs",
    "file://hush:SECRET@host/runs",
]
"""However SECRET is split, every piece of it holds the text hush, and so does every other secret part."""
SECRETS = st.lists(
    st.sampled_from([*"/@:?#&=%+;,'\"\\[]<> \n\t\0é\u2100\ud800", "//", "://", "%2F", "%40"]), max_size=4
).map(lambda signs: "hush".join(["", *signs, ""]))


def full_text(error: BaseException) -> str:
    """Return all that a traceback, a log or a debugger would print of an error, its causes and its contexts."""
    seen: list[BaseException] = []
    queue: list[BaseException | None] = [error]
    while queue:
        one = queue.pop()
        if one is not None and one not in seen:
            seen.append(one)
            queue += [one.__cause__, one.__context__]
    texts = [f"{one} {one!r} {one.args!r} {''.join(traceback.format_exception_only(one))}" for one in seen]
    return "\n".join([*texts, *traceback.format_exception(error)])


@settings(max_examples=300)
@given(shape=st.sampled_from(SHAPES), secret=SECRETS)
def test_no_part_of_a_secret_is_ever_shown(s3_environment: None, shape: str, secret: str) -> None:
    location = shape.replace("SECRET", secret)
    shown = []
    try:
        folder = Folder(location)
        shown += [folder.location, repr(folder), str(vars(folder)), folder.below("inner").location]
        if location.startswith("s3"):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(bucket, "MAX_RETRIES", 0)
                Folder(location).get("object")
    except StoreError as error:
        shown.append(full_text(error))
    assert shown
    assert "hush" not in "\n".join(shown)


@pytest.mark.parametrize(
    ("location", "advice"),
    [
        ("s3://hush:hu/sh@bucket/runs", "in a key or secret, write / ? # and @ as %2F %3F %23 and %40"),
        ("s3://hu/sh:hush@bucket/runs", "in a key or secret, write / ? # and @ as %2F %3F %23 and %40"),
        ("s3://hush:hush", "there is no bucket"),
        ("s3:/hush:hush@bucket", "write s3://bucket/folder, with two slashes"),
        ("s3://bucket/runs?secret_key=hush", "an unknown option; known: "),
    ],
)
def test_a_url_that_is_refused_says_what_to_write_instead(location: str, advice: str) -> None:
    with pytest.raises(StoreError, match=r"^cannot open ") as refused:
        Folder(location)
    assert advice in str(refused.value)
    assert "hu" not in str(refused.value)


def test_a_path_object_made_from_a_url_is_refused_because_it_lost_a_slash() -> None:
    with pytest.raises(StoreError, match="two slashes"):
        Folder(Path("s3://bucket/runs"))


@pytest.mark.parametrize("name", ["beta:0.1/runs", "a@b", "a b", "./s3:/x", "why?", "x/y:/z"])
def test_a_local_folder_may_have_a_name_that_resembles_a_url(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Folder(name).put("object", b"x")
    assert (tmp_path / name / "object").read_bytes() == b"x"


def test_a_url_of_a_local_folder_is_its_path(tmp_path: Path) -> None:
    folder = Folder(f"file://{tmp_path}/a%20b@c")
    assert (folder.local_path, folder.location) == (tmp_path / "a b@c", f"{tmp_path}/a b@c")


class Broken:
    """A file system whose every method fails with this message."""

    def __init__(self, message: str) -> None:
        self._message = message

    def __getattr__(self, name: str) -> Any:
        def fail(*_: Any, **__: Any) -> None:
            raise OSError(self._message) from ValueError(self._message)

        return fail


ACTIONS = {
    "put": lambda folder: folder.put("object", b"x"),
    "get": lambda folder: folder.get("object"),
    "list": lambda folder: folder.list(),
    "delete": lambda folder: folder.delete("object"),
}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("message", ["it was hush2/3", "hush2%2F3", "HUSH2", "Credential=hush1/20"])
def test_an_error_of_the_library_that_holds_a_secret_is_hidden(action: str, message: str) -> None:
    folder = Folder("s3://hush1:hush2%2F3@bucket/runs?region=x")
    folder._backend = Broken(message)  # type: ignore[assignment]
    with pytest.raises(StoreError, match=r"s3://bucket/runs\?region=x.* the reason is hidden") as failed:
        ACTIONS[action](folder)
    assert message not in full_text(failed.value)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("account", ["", "KEY:hush@"])
def test_any_other_error_of_the_library_is_shown(action: str, account: str) -> None:
    folder = Folder(f"s3://{account}bucket/runs?region=x")
    folder._backend = Broken("access denied")  # type: ignore[assignment]
    with pytest.raises(StoreError, match="access denied") as failed:
        ACTIONS[action](folder)
    assert (failed.value.__cause__ is None) == bool(account)


@pytest.mark.parametrize("command", ["digest URL", "report URL", "report . --out URL", "doctor --out URL"])
def test_no_command_prints_a_secret(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(command.replace("URL", "s3://hush:hu/sh@bucket").split()) == 1
    output = capsys.readouterr()
    assert output.err + output.out
    assert "hu/" not in output.err + output.out
    assert "hush" not in output.err + output.out
