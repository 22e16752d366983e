"""JupyterLab's own command, lean: `python -m utils.course.server` takes what `jupyter lab` takes."""

import sys

from utils.course.lean import leave_out

if __name__ == "__main__":
    leave_out()
    from jupyterlab.labapp import main

    sys.exit(main())
