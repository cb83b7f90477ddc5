import errno
import http.server
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import obstore
import pytest

from offpiste.errors import AccessDenied, StoreError
from offpiste.store import bucket
from offpiste.store.storage import Folder
from tests.s3_server import S3Server, free_port, s3_location

TWENTY_MEGABYTES = np.random.default_rng(0).bytes(20_000_000)


@pytest.mark.parametrize(
    "data", [b"", b"x", bytes(range(256)), TWENTY_MEGABYTES], ids=["empty", "one byte", "every byte", "20 MB"]
)
def test_get_returns_what_was_put(folder: Folder, data: bytes) -> None:
    folder.put("deep/down/object", data)
    assert folder.get("deep/down/object") == data


def test_a_second_put_of_a_name_replaces_the_first(folder: Folder) -> None:
    folder.put("object", b"a longer first content")
    folder.put("object", b"second")
    assert folder.get("object") == b"second"
    assert folder.list() == ["object"]


@pytest.mark.parametrize("name", ["missing", "missing/too", "object/below an object", "inner"])
def test_get_returns_none_for_what_is_not_an_object(folder: Folder, name: str) -> None:
    folder.put("object", b"x")
    folder.put("inner/object", b"x")
    assert folder.get(name) is None


def test_a_listing_is_sorted_and_has_direct_children_only(folder: Folder) -> None:
    for name in ["b", "a", "c", "inner/d", "inner/deeper/e", "inner-other/f"]:
        folder.put(name, b"x")
    assert folder.list() == ["a", "b", "c"]
    assert folder.list("inner") == folder.list("inner/") == ["d"]
    assert folder.list("inner/deeper") == ["e"]


def test_a_pipe_is_no_object_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert Folder(tmp_path).get("pipe") is None
    assert Folder(tmp_path).list() == []


def test_a_missing_folder_lists_as_empty(folder: Folder) -> None:
    assert folder.list() == []
    folder.put("object", b"x")
    assert folder.list("missing") == []


def test_an_object_may_be_deleted_twice(folder: Folder) -> None:
    folder.put("inner/object", b"x")
    folder.put("inner/other", b"y")
    folder.delete("inner/object")
    folder.delete("inner/object")
    assert folder.get("inner/object") is None
    assert folder.list("inner") == ["other"]


def test_deleting_the_last_object_leaves_an_empty_folder(folder: Folder) -> None:
    folder.put("inner/object", b"x")
    folder.delete("inner/object")
    assert folder.list("inner") == []
    assert folder.list() == []


def test_a_folder_below_another_opens_by_its_own_location(folder: Folder) -> None:
    folder.below("one").below("two").put("object", b"x")
    assert folder.get("one/two/object") == b"x"
    assert Folder(folder.below("one/two").location).list() == ["object"]


def test_only_a_folder_on_a_disk_has_a_local_path(tmp_path: Path, s3_server: S3Server) -> None:
    assert Folder(tmp_path).local_path == tmp_path
    assert Folder(f"file://{tmp_path}").local_path == tmp_path
    assert Folder(tmp_path).below("inner").local_path == tmp_path / "inner"
    assert Folder(s3_location(s3_server.port, "x")).local_path is None


def test_a_local_name_may_hold_a_question_mark(tmp_path: Path) -> None:
    below = Folder(tmp_path / "why?").below("inner")
    below.put("object", b"x")
    assert Folder(below.location).list() == ["object"]


def test_a_relative_folder_stays_where_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Folder("runs")
    monkeypatch.chdir("/")
    folder.put("object", b"x")
    assert (tmp_path / "runs" / "object").read_bytes() == b"x"


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("nowhere://x", "nowhere"),
        ("s3://", "names no bucket"),
        ("s3://bucket?regoin=x", "did you mean 'region'?"),
        ("s3://bucket?region=x&anonymous=yes", "anonymous must be true or false, got 'yes'"),
        ("gs://bucket?region=x", "options are for s3:// only"),
    ],
)
def test_an_invalid_location_is_refused(location: str, reason: str) -> None:
    with pytest.raises(StoreError, match="cannot open") as refused:
        Folder(location)
    assert reason in str(refused.value)


def test_credentials_in_a_url_open_the_folder_and_stay_out_of_messages(s3_server: S3Server) -> None:
    url = s3_location(s3_server.port, "keys")
    with_keys = url.replace("s3://", "s3://someone:hush%2Fhush@")
    folder = Folder(with_keys)
    assert "hush" not in folder.location
    folder.put("object", b"x")
    assert Folder(url).get("object") == b"x"
    with pytest.raises(
        StoreError, match=r"cannot write object to s3://other-bucket.*NoSuchBucket.*; create the bucket first$"
    ) as failed:
        Folder(with_keys.replace("@bucket", "@other-bucket")).put("object", b"x")
    assert "hush" not in str(failed.value)


# Writes that fail


def test_a_file_where_a_folder_should_be_is_an_error_that_names_the_object(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.put("taken", b"older")
    with pytest.raises(StoreError, match="cannot write taken/object"):
        folder.put("taken/object", b"x")
    assert folder.get("taken") == b"older"
    assert everything_below(tmp_path) == ["taken"]


def test_a_folder_where_an_object_should_be_is_an_error_without_leftovers(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.put("object/inner", b"older")
    with pytest.raises(StoreError, match="cannot write object"):
        folder.put("object", b"x")
    with pytest.raises(StoreError, match="cannot delete object"):
        folder.delete("object")
    assert everything_below(tmp_path) == ["object", "object/inner"]


def test_a_full_disk_leaves_the_older_object_and_nothing_else(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.put("object", b"older")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # simulates a disk with that much free space
    try:
        with pytest.raises(StoreError, match="cannot write object"):
            folder.put("object", b"x" * 1_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert folder.get("object") == b"older"
    assert everything_below(tmp_path) == ["object"]


@pytest.mark.parametrize(
    ("moment", "newer", "unfinished"),
    [
        ("while bytes are written", False, 1),
        ("before they are flushed", False, 1),
        ("before the new name", False, 1),
        ("before the folder is flushed", True, 0),
    ],
)
def test_an_object_is_whole_whenever_its_writer_is_killed(
    moment: str, newer: bool, unfinished: int, tmp_path: Path
) -> None:
    older, size = b"a" * 1_000, 8_000_000
    folder = Folder(tmp_path)
    folder.put("object", older)
    writer = subprocess.run([sys.executable, "-c", WRITER, str(tmp_path), str(size), moment], check=False)
    assert writer.returncode < 0
    assert folder.get("object") == (b"b" * size if newer else older)
    assert folder.list() == ["object"]
    left = [name for name in everything_below(tmp_path) if name != "object"]
    assert len(left) == unfinished
    if moment == "while bytes are written":
        assert (tmp_path / left[0]).stat().st_size == size // 2


WRITER = textwrap.dedent(
    """
    import os, resource, signal, sys
    from pathlib import Path
    from offpiste.store.storage import Folder

    where, size, moment = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    folder, fsync, flushed = Folder(where), os.fsync, []

    def end(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    def end_at_second(descriptor):
        flushed.append(descriptor)
        end() if len(flushed) == 2 else fsync(descriptor)

    if moment == "while bytes are written":
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # which ends the process; Python ignores it
    elif moment == "before they are flushed":
        os.fsync = end
    elif moment == "before the new name":
        Path.replace = end
    else:
        os.fsync = end_at_second
    folder.put("object", b"b" * size)
    """
)


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_in_the_middle_of_an_upload_publishes_no_part_of_it(
    new_s3_location: Callable[[], str], signal_number: signal.Signals
) -> None:
    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    folder = Folder(new_s3_location())
    folder.put("object", b"older")
    before = signal.signal(signal_number, stop)
    timer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal_number))
    try:
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012
            timer.start()
            while True:
                folder.put("object", TWENTY_MEGABYTES)
    finally:
        signal.signal(signal_number, before)
    assert folder.get("object") in (b"older", TWENTY_MEGABYTES)


class BrokenS3(http.server.BaseHTTPRequestHandler):
    """Accepts uploads, but answers one kind of request with an error; records the kinds of its requests."""

    protocol_version = "HTTP/1.1"
    fails = ""
    requests_seen: list[str]

    def answer(self) -> None:
        self._read_body()
        kind = "create" if "?uploads" in self.path else "complete"
        if self.command == "PUT":
            kind = f"part {self.path.partition('partNumber=')[2][:1]}" if "partNumber" in self.path else "put"
        self.requests_seen.append(kind)
        body = b"<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"
        if kind == "create":
            body = b"<CreateMultipartUploadResult><UploadId>u</UploadId></CreateMultipartUploadResult>"
        if kind == self.fails:
            body = b"<Error><Code>InvalidRequest</Code><Message>broken on purpose</Message></Error>"
        self.send_response(400 if kind == self.fails else 200)
        self.send_header("ETag", '"e"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_POST = answer  # noqa: N815

    def do_DELETE(self) -> None:
        self.requests_seen.append("abort")
        self.send_response(204)
        self.end_headers()

    def _read_body(self) -> None:
        if self.headers.get("Transfer-Encoding") != "chunked":
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            return
        while length := int(self.rfile.readline().partition(b";")[0], 16):
            self.rfile.read(length + 2)
        while self.rfile.readline().strip():
            pass

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def broken_s3(s3_environment: None) -> Iterator[tuple[type[BrokenS3], Folder]]:
    handler = type("Handler", (BrokenS3,), {"requests_seen": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield handler, Folder(s3_location(server.server_port, "runs"))
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("fails", "size"),
    [("put", 10)] + [(fails, 25_000_000) for fails in ("create", "part 1", "part 2", "part 3", "complete")],
)
def test_an_upload_with_a_failed_request_publishes_nothing(
    broken_s3: tuple[type[BrokenS3], Folder], fails: str, size: int
) -> None:
    handler, folder = broken_s3
    handler.fails = fails
    with pytest.raises(StoreError, match=r"cannot write object .*broken on purpose"):
        folder.put("object", b"x" * size)
    assert fails in handler.requests_seen
    assert fails == "put" or "put" not in handler.requests_seen
    assert fails == "complete" or "complete" not in handler.requests_seen
    but_parts = [kind for kind in handler.requests_seen if kind[:4] != "part"]  # one on its way may arrive after all
    assert fails in ("put", "create") or but_parts[-1] == "abort"


def test_a_small_object_is_one_request_to_write_to_read_and_to_miss(s3_server: S3Server) -> None:
    folder = Folder(s3_location(s3_server.port, "watched"))

    def requests(act: Callable[[], object]) -> list[str]:
        before = len(s3_server.requests("/bucket"))
        act()
        return [request.partition(" ")[0] for request in s3_server.requests("/bucket")[before:]]

    assert requests(lambda: folder.put("object", b"x" * 300)) == ["PUT"]
    assert requests(lambda: folder.get("object")) == ["GET"]
    assert requests(lambda: folder.get("object", 10)) == ["GET"]
    assert requests(lambda: folder.get("missing")) == ["GET"]
    assert requests(folder.stat) == ["GET"]
    assert len(requests(lambda: folder.delete("object"))) == 1


def test_the_first_bytes_of_an_object_are_its_first_bytes(folder: Folder) -> None:
    folder.put("object", b"0123456789")
    folder.put("empty", b"")
    assert [folder.get("object", count) for count in (1, 4, 10, 99)] == [b"0", b"0123", b"0123456789", b"0123456789"]
    assert (folder.get("empty", 5), folder.get("missing", 5)) == (b"", None)


@pytest.mark.parametrize("name", ["a b", "ε", "100%", "x?y", "a#b", "a~b", "a*b", "a+b", "beta=0.1,lr=1", "a%20b"])
def test_a_name_is_kept_as_it_is(name: str, folder: Folder) -> None:
    folder.put(f"{name}/{name}", b"x")
    assert folder.entries() == ([], [name])
    assert folder.list(name) == [name]
    assert folder.below(name).get(name) == b"x"


def test_an_object_that_makes_a_folder_visible_is_no_object_of_ours(s3_server: S3Server) -> None:
    url = f"http://127.0.0.1:{s3_server.port}/bucket/marked/inner/"
    for key in ("marked/", "marked/inner/"):
        request = urllib.request.Request(url.replace("marked/inner/", key), method="PUT", data=b"")  # noqa: S310
        urllib.request.urlopen(request).close()  # noqa: S310
    folder = Folder(s3_location(s3_server.port, "marked"))
    assert folder.entries() == ([], ["inner"])
    assert folder.list("inner") == []


def test_of_an_answer_of_a_server_only_code_and_message_are_shown() -> None:
    answer = "<Error><Code>NoSuch</Code><Message>it is not</Message><AWSAccessKeyId>AKIA</AWSAccessKeyId></Error>"
    error = OSError(f"cannot: 403 Forbidden: {answer}\n\nDebug source:\nHeaders {{ key }}")
    assert bucket.reason_of(error) == "cannot: 403 Forbidden: NoSuch: it is not"
    assert bucket.reason_of(OSError("404: <Error><Code>NoSuch</Code><Message></Message></Error>")) == "404: NoSuch"


def test_a_web_server_that_is_not_there_is_an_error_with_its_reason() -> None:
    with pytest.raises(StoreError, match=r"cannot read manifest.json from http://127.*Connection refused"):
        Folder(f"http://127.0.0.1:{free_port()}/x").get("manifest.json")


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        (
            "Error performing PUT http://169.254.169.254/latest/api/token in 5s: 403 Forbidden: error sending request",
            "no keys were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for an s3:// URL",
        ),
        ("404 Not Found: <Error><Code>NoSuchBucket</Code></Error>", "create the bucket first"),
        (
            "403 Forbidden: <Error><Code>SignatureDoesNotMatch</Code></Error>",
            "check the keys and their permissions",
        ),
        (
            "GET http://h:1/b - HTTP error: error sending request",
            "is the address right and the server up? one without TLS needs &scheme=http in the URL",
        ),
        ("507 Insufficient Storage", "check permissions and free space"),
    ],
)
def test_an_error_of_an_object_store_says_what_to_do_about_it(
    reason: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder("s3://KEY:hush@bucket/runs?region=x")

    def fail(*_: Any) -> None:
        raise obstore.exceptions.GenericError(reason)

    monkeypatch.setattr(folder._backend, "put", fail)
    with pytest.raises(StoreError) as failed:
        folder.put("object", b"x")
    assert str(failed.value).endswith(f"; {advice}")
    assert str(failed.value).count(";") == 1 + advice.count(";")


@pytest.mark.parametrize(
    ("error", "denied"),
    [
        (obstore.exceptions.GenericError("list: 403 Forbidden: <Code>AccessDenied</Code>"), True),
        (obstore.exceptions.PermissionDeniedError("get: 401 Unauthorized"), True),
        (PermissionError(13, "Permission denied"), True),
        (obstore.exceptions.GenericError("503 Slow Down"), False),
        (OSError(28, "No space left on device"), False),
    ],
)
def test_a_store_that_refuses_is_another_error_than_one_that_fails(
    error: Exception, denied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder("s3://bucket/runs?region=x")

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(folder._backend, "entries", fail)
    with pytest.raises(StoreError) as failed:
        folder.list()
    assert isinstance(failed.value, AccessDenied) == denied


def test_keys_are_read_from_the_file_of_aws_if_the_environment_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "credentials"
    file.write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b%c\n[other]\naws_session_token = t\n")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    assert bucket._keys_in_file() == {"access_key_id": "a", "secret_access_key": "b%c"}
    monkeypatch.setenv("AWS_PROFILE", "other")
    assert bucket._keys_in_file() == {"session_token": "t"}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mine")
    assert bucket._keys_in_file() == {}
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    file.write_text("no section")
    assert bucket._keys_in_file() == {}


@pytest.mark.parametrize(
    "location",
    ["gs://bucket/runs", "abfs://container@account.dfs.core.windows.net/runs", "az://c@account.blob.core.windows.net"],
)
def test_other_clouds_open_by_url(location: str) -> None:
    folder = Folder(location)
    assert (folder.location, folder.holds_keys, folder.local_path) == (location, False, None)


def test_a_key_that_no_header_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch, s3_environment: None) -> None:
    with pytest.raises(StoreError, match="a key must be printable ASCII"):
        Folder("s3://a%0Ab:secret@bucket/x?region=r")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ключ")
    with pytest.raises(StoreError, match="a key must be printable ASCII"):
        Folder("s3://bucket/x?region=r")


# Servers that do not answer


def test_a_server_that_has_stopped_is_an_error_that_names_the_object(s3_environment: None, tmp_path: Path) -> None:
    server = S3Server(tmp_path / "log")
    server.wait()
    folder = Folder(s3_location(server.port, "runs"))
    server.stop()
    with pytest.raises(StoreError, match="cannot write some/object"):
        folder.put("some/object", b"x")


@pytest.mark.parametrize("action", ["get", "list", "delete"])
def test_reading_from_a_port_without_a_server_is_an_error(
    s3_environment: None, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    monkeypatch.setattr(bucket, "MAX_RETRIES", 0)
    folder = Folder(s3_location(free_port(), "runs"))
    with pytest.raises(StoreError, match=r"cannot (read|list|delete) object"):
        getattr(folder, action)("object")


def test_a_bucket_that_does_not_exist_is_an_error_when_written_to(s3_server: S3Server) -> None:
    folder = Folder(s3_location(s3_server.port, "runs").replace("s3://bucket", "s3://other-bucket"))
    with pytest.raises(StoreError, match="cannot write object"):
        folder.put("object", b"x")


@pytest.mark.parametrize("action", ["put", "get"])
@pytest.mark.parametrize("seconds", [1.0, pytest.param(bucket.SILENT_SECONDS, marks=pytest.mark.exhaustive)])
def test_a_server_that_never_answers_is_given_up_soon_after_the_time_it_is_given(
    s3_environment: None, monkeypatch: pytest.MonkeyPatch, seconds: float, action: str
) -> None:
    monkeypatch.setattr(bucket, "SILENT_SECONDS", seconds)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        folder = Folder(s3_location(silent.getsockname()[1], "runs"))
        begin = time.monotonic()
        with pytest.raises(StoreError):
            folder.put("object", b"x") if action == "put" else folder.get("object")
        assert time.monotonic() - begin < seconds + 15


def test_a_program_that_uses_s3_ends_cleanly(new_s3_location: Callable[[], str]) -> None:
    program = """
        import sys
        from offpiste.store.storage import Folder

        folder = Folder(sys.argv[1])
        folder.put("object", b"x" * 12_000_000)
        assert len(folder.get("object")) == 12_000_000
        assert folder.list() == ["object"]
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program), new_s3_location()],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def everything_below(path: Path) -> list[str]:
    return sorted(str(found.relative_to(path)) for found in path.rglob("*"))


def test_the_name_of_a_new_folder_is_flushed_with_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []

    def fsync(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))

    monkeypatch.setattr(os, "fsync", fsync)
    Folder(tmp_path).put("game/method/run.json", b"x")
    assert {str(tmp_path), f"{tmp_path}/game", f"{tmp_path}/game/method"} <= {*synced}
    synced.clear()
    Folder(tmp_path).put("game/method/status.json", b"x")
    assert synced[1:] == [f"{tmp_path}/game/method"]


def failing_fsync(number: int, *, of_folders: bool) -> Callable[[int], None]:
    """Return an fsync that fails for folders, or for files."""
    fsync = os.fsync

    def failing(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode) == of_folders:
            raise OSError(number, os.strerror(number))
        fsync(descriptor)

    return failing


def test_a_file_system_that_cannot_flush_folders_is_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", failing_fsync(errno.EINVAL, of_folders=True))
    Folder(tmp_path).put("game/method/run.json", b"x")
    assert Folder(tmp_path).get("game/method/run.json") == b"x"


@pytest.mark.parametrize(("number", "of_folders"), [(errno.EIO, True), (errno.ENOSPC, True), (errno.EINVAL, False)])
def test_any_other_error_while_flushing_fails_the_write(
    number: int, of_folders: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", failing_fsync(number, of_folders=of_folders))
    with pytest.raises(StoreError):
        Folder(tmp_path).put("run.json", b"x")


@pytest.mark.parametrize("link", ["run", "run/part", "run/part/inner"])
def test_nothing_is_written_or_deleted_through_a_link(link: str, tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    (ours / "part" / "inner").mkdir(parents=True)
    name = str(Path("run/part/inner/object").relative_to(link))
    for path in (ours / "object", ours / "part" / "inner" / "object", ours / "inner" / "object"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"ours")
    old = (ours / name).with_name("old.unfinished")
    old.touch()
    os.utime(old, (0, 0))
    (tmp_path / "store" / link).parent.mkdir(parents=True)
    (tmp_path / "store" / link).symlink_to(ours)
    before = sorted(ours.rglob("*"))
    for at, within in ((".", "run/part/inner"), ("run", "part/inner")):
        folder = Folder(tmp_path / "store").below(at)
        assert folder.get(f"{within}/object") == b"ours"
        assert "object" in folder.list(within)
        with pytest.raises(StoreError, match=r"is a link to .*ours, and nothing is written or deleted through"):
            folder.put(f"{within}/object", b"x")
        with pytest.raises(StoreError, match="is a link to"):
            folder.delete(f"{within}/object")
        with pytest.raises(StoreError, match="is a link to"):
            folder.sweep(within, 1.0)
    assert sorted(ours.rglob("*")) == before
    assert {path.read_bytes() for path in ours.rglob("object")} == {b"ours"}


def test_a_link_is_replaced_or_deleted_itself_and_a_store_may_be_one(tmp_path: Path) -> None:
    for name in ("ours/file", "place/object"):
        Folder(tmp_path).put(name, b"ours")
    (tmp_path / "store").symlink_to(tmp_path / "place")
    folder = Folder(tmp_path / "store")
    for name, target in (("file", "ours/file"), ("folder", "ours"), ("again", "ours/file")):
        (tmp_path / "place" / name).symlink_to(tmp_path / target)
    assert [folder.is_link(name) for name in ("file", "folder", "object", "nothing")] == [True, True, False, False]
    folder.put("file", b"new")
    folder.delete("folder")
    folder.delete("again")
    assert folder.entries() == (["file", "object"], [])
    assert folder.get("file") == b"new"
    assert (tmp_path / "ours" / "file").read_bytes() == b"ours"


def test_no_object_of_an_object_store_is_a_link(s3_server: S3Server) -> None:
    assert not Folder(s3_location(s3_server.port, "links")).is_link("object")
