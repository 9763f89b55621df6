"""`python -m warmset.vllm.serve MODEL …` is `vllm serve MODEL …`, also where that command cannot start."""

import os
import sys
from pathlib import Path

import warmset.vllm.startup  # noqa: F401  # spawned engines import this module anew, and need it too


def main() -> int:
    """Run `vllm serve` with the arguments of this process."""
    site = str(Path(__file__).parent / "site")
    os.environ["PYTHONPATH"] = os.pathsep.join([site, *filter(None, [os.environ.get("PYTHONPATH")])])

    from vllm.entrypoints.cli.main import main as vllm_main

    sys.argv = ["vllm", "serve", *sys.argv[1:]]
    return int(vllm_main() or 0)


if __name__ == "__main__":
    sys.exit(main())
