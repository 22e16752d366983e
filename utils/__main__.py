"""`python -m utils NAME` does what `make NAME` does: it creates .venv, then runs the command there.

Any Python must be able to parse this, as it must `utils/build/bootstrap.py`.
"""

import os
import signal
import subprocess
import sys

from utils.build import bootstrap


def main():
    bootstrap.check_python()
    from utils.build import commands
    from utils.paths import INSTALLED

    name = sys.argv[1] if len(sys.argv) > 1 else "help"
    if INSTALLED or name not in commands.COMMANDS:
        return commands.main()
    bootstrap.main(commands.COMMANDS[name].level)
    command = [bootstrap.PYTHON, "-m", "utils.build.commands"] + sys.argv[1:]
    if os.name == "posix":
        os.execv(bootstrap.PYTHON, command)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the command itself
    return subprocess.call(command)


if __name__ == "__main__":
    sys.exit(main())
