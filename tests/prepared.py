"""`offpiste` and `python -c` in a shell, without the seconds that each of their processes takes to import torch.

The programs in `bin` hand their arguments, folder, environment and standard streams to a server that has imported all
that commands import. It forks a process for each, which ends with the exit code of the command. What a command starts
itself are processes as ever.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import traceback
import types
from collections.abc import Iterator
from pathlib import Path

_PROGRAM = """\
#!{python} -SIE
import array, json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
call = json.dumps([{name!r}, sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [len(call).to_bytes(8, "big")], [0, 1, 2])
server.sendall(call)
answer = server.recv(1)
sys.exit(answer[0] if answer else 70)
"""


@contextlib.contextmanager
def prepared() -> Iterator[Path]:
    """Yield a folder with the programs `offpiste` and `python`, until the end of the block."""
    folder = Path(tempfile.mkdtemp(prefix="offpiste-"))  # the address of a socket has at most 107 bytes
    programs, address = folder / "bin", str(folder / "socket")
    programs.mkdir()
    for name in ("offpiste", "python"):
        program = programs / name
        program.write_text(_PROGRAM.format(python=sys.executable, address=address, name=name))
        program.chmod(0o755)
    server = subprocess.Popen([sys.executable, "-m", __name__, address], stdout=subprocess.PIPE)
    assert server.stdout is not None
    try:
        with server.stdout:
            assert server.stdout.readline() == b"ready\n"
            yield programs
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder)


def serve(address: str) -> None:
    """Run one process for each call, until this one is killed."""
    import duckdb  # noqa: F401
    import matplotlib.pyplot  # noqa: F401, ICN001
    import torch.utils.tensorboard  # noqa: F401

    import offpiste.bonuses.contract.check
    import offpiste.cli.study
    import offpiste.report.page
    import offpiste.run.train
    import offpiste.run.video  # noqa: F401

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    print("ready", flush=True)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            _waits(connection)
        connection.close()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _waits(connection: socket.socket) -> None:
    """Run the command in a child, and answer with its exit code: a child that is killed cannot."""
    head, streams, _, _ = socket.recv_fds(connection, 8, 3)
    length, call = int.from_bytes(head, "big"), b""
    while len(call) < length:
        call += connection.recv(length - len(call))
    if (child := os.fork()) == 0:
        connection.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os._exit(_code(*json.loads(call)))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    connection.sendall(bytes([code if code >= 0 else 128 - code]))
    os._exit(0)


def _code(name: str, argv: list[str], folder: str, environment: dict[str, str]) -> int:
    """Run a command in this process and return its exit code."""
    code: object = 0
    try:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = [name, *argv]
        if name == "offpiste":
            from offpiste.cli import main

            code = main(argv)
        else:
            flag, program = argv
            assert flag == "-c"
            sys.path.insert(0, "")
            sys.modules["__main__"] = types.ModuleType("__main__")
            exec(compile(program, "<string>", "exec"), vars(sys.modules["__main__"]))  # noqa: S102
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else int(code is not None)


if __name__ == "__main__":
    serve(sys.argv[1])
