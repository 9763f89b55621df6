"""Where `warmset` and `python -m warmset` begin: Ctrl-C is quiet from here on, also while the command is imported."""

# What comes before `main` is not guarded: nothing that takes time is imported here, nor by the package itself.
import _thread
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sys import UnraisableHookArgs


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        import signal

        # A shell has Ctrl-C ignored for a job in the background: then it stays so.
        heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if heard:
            # An import can lose or rename KeyboardInterrupt on its way; nothing is there to be tidied up yet.
            signal.signal(signal.SIGINT, _leave)
        from warmset.cli.interrupt import listen
        from warmset.cli.main import main as command

        if heard:
            listen()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            sys.unraisablehook = _lost
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


def _lost(what: "UnraisableHookArgs") -> None:
    """Press Ctrl-C once more where Python must drop it: in a finaliser, or as an import lets go of its lock."""
    if what.exc_type is KeyboardInterrupt:
        # From another thread: here it would be dropped again.
        _thread.start_new_thread(_thread.interrupt_main, ())
    else:
        sys.__unraisablehook__(what)


if __name__ == "__main__":
    sys.exit(main())
