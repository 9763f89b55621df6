"""Where `warmset` and `python -m warmset` begin: Ctrl-C is quiet from here on, also while the command is imported."""

# What comes before `main` is not guarded: nothing that takes time is imported here, nor by the package itself.
import os
import sys


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        import signal

        # A shell has Ctrl-C ignored for a job in the background: then it stays so.
        heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if heard:
            # An import can lose or rename KeyboardInterrupt on its way; nothing is there to be tidied up yet.
            signal.signal(signal.SIGINT, _leave)
        from warmset.cli.main import main as command

        if heard:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = command()
        if heard:
            signal.signal(signal.SIGINT, _leave)
        return code
    except KeyboardInterrupt:
        return _leave()


def _leave(*_: object) -> int:
    """End at once, as every interrupted command ends."""
    os.write(2, b"\nerror: interrupted\n")  # below the `^C` of the terminal, as click does
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
