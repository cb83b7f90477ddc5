"""How a shell parses a command that we print, and hostile names that try to make it run something else."""

import json
import os
import subprocess
import sys
from pathlib import Path

HOSTILE_NAMES = (
    "x$(touch PWNED)",
    "`touch PWNED`",
    "x; touch PWNED #",
    "x\ntouch PWNED\n",
    "'\ntouch PWNED\n'",
    "x\x1b[201~\rtouch PWNED\r",
    'it\'s "$HOME" & | > PWNED < \\ ! !! * ? ~ {a,b}',
    "--out=PWNED",
    "\N{RIGHT-TO-LEFT OVERRIDE}DENWP hcuot",
    "ε",
    "",
)
_PRINTS_ITS_ARGUMENTS = "#!{python}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n"


def calls(shell_text: str, folder: Path) -> list[list[str]]:
    """Run a text in bash and return the arguments of each call of `offpiste`; the text must do nothing else."""
    programs, here = folder / "programs", folder / "here"
    programs.mkdir(parents=True, exist_ok=True)
    here.mkdir(exist_ok=True)
    program = programs / "offpiste"
    program.write_text(_PRINTS_ITS_ARGUMENTS.format(python=sys.executable))
    program.chmod(0o755)
    subprocess.run(["bash", "-n", "-c", shell_text], check=True)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONUTF8": "1"}
    done = subprocess.run(
        ["bash", "-c", shell_text], cwd=here, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert list(here.iterdir()) == []
    return [json.loads(line) for line in done.stdout.splitlines()]
