"""What a shell makes of a command that we show, and names that a stranger would have it run."""

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
_SAYS_ITS_ARGUMENTS = "#!{python}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n"


def calls(shell_text: str, folder: Path) -> list[list[str]]:
    """Return the arguments of each call of `offpiste` in a text that bash runs, which must do nothing else."""
    programs, here = folder / "programs", folder / "here"
    programs.mkdir(parents=True, exist_ok=True)
    here.mkdir(exist_ok=True)
    program = programs / "offpiste"
    program.write_text(_SAYS_ITS_ARGUMENTS.format(python=sys.executable))
    program.chmod(0o755)
    subprocess.run(["bash", "-n", "-c", shell_text], check=True)
    path = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONUTF8": "1"}
    ran = subprocess.run(["bash", "-c", shell_text], cwd=here, env=path, capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    assert list(here.iterdir()) == []
    return [json.loads(line) for line in ran.stdout.splitlines()]
