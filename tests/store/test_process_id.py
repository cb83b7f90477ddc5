"""A process is known by its machine, its id and its start, so that others see whether it has ended."""

import subprocess
import sys
from pathlib import Path

import pytest

from offpiste.store import process_id
from offpiste.store.process_id import has_ended, this_process

NAME = "from offpiste.store.process_id import this_process; print(this_process(), flush=True); input()"


@pytest.mark.parametrize("proc", [True, False])
def test_a_process_has_ended_once_it_was_killed_and_only_then(proc: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    command = NAME
    if not proc:  # as on macOS
        command = "from pathlib import Path; import offpiste.store.process_id as p; "
        command += f"p._BOOT = p._PROCESSES = Path('/none'); {NAME}"
        monkeypatch.setattr(process_id, "_BOOT", Path("/none"))
        monkeypatch.setattr(process_id, "_PROCESSES", Path("/none"))
    process_id._machine.cache_clear()
    with subprocess.Popen([sys.executable, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        name = process.stdout.readline().decode().strip()
        before = has_ended(name)
        process.kill()
        process.wait()
        assert (before, has_ended(name)) == (False, True)
    assert not has_ended(this_process())
    process_id._machine.cache_clear()


def test_a_later_process_with_the_same_id_is_another_and_one_elsewhere_never_ends() -> None:
    machine, pid, start = this_process().split("-", 2)
    assert has_ended(f"{machine}-{pid}-{int(start) - 1}")
    assert not has_ended(f"00000000-{pid}-{int(start) - 1}")
    for crooked in ("", "x", f"{machine}-", f"{machine}-x-1"):
        assert not has_ended(crooked)
