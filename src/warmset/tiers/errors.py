"""What can go wrong in a store, classified by the backend itself so that the wrappers need not guess.

StoreError
├── NotFound        the key is not there: an ordinary miss
├── TooLarge        the object does not fit the buffer it should be read into
├── Corrupt         what is stored is not what was put: never to be used, never to be retried
├── Locked          encrypted, and not with the key at hand: nothing says that it is damaged
├── Full            no space left, or a quota reached
├── Denied          credentials missing, expired or without permission
└── Transient       may work if tried again
    ├── Throttled   the store asks to slow down
    ├── Unavailable the store cannot be reached or answers with a server error
    └── Deadline    not answered in time
"""

from warmset.errors import WarmsetError


class StoreError(WarmsetError):
    """Base of all errors of a store; on the command line it means that the question could not be answered."""

    exit_code = 3
    # The hint of every error of the kind, where its place does not know a better one.
    fix: str | None = None

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint or self.fix)


class NotFound(StoreError):
    """The key is not in the store."""

    fix = "check the bucket or directory, and the prefix: `warmset tier ls STORE` shows what is in one that exists"


class TooLarge(StoreError):
    """The stored object is larger than the buffer."""

    fix = "another program, or an engine with larger blocks, put it there: give each a prefix of its own"


class Corrupt(StoreError):
    """The stored bytes are not the bytes that were put under this key."""

    fix = "`warmset tier verify STORE --delete-corrupt` finds and deletes what is damaged"


class Locked(StoreError):
    """The object is encrypted, and the key at hand does not open it."""

    fix = "give the key that it was put with: `--key-file FILE` or `--key-env NAME`"


class Full(StoreError):
    """The store has no space left for this object."""

    fix = "make room with `warmset tier gc STORE --capacity SIZE`, and bound the server's tier with `capacity_bytes`"


class Denied(StoreError):
    """The store refuses these credentials, or this operation for them."""

    fix = (
        "check the credentials (of a directory: its owner and mode), and that they may list, read, write and delete "
        "below this prefix"
    )


class Transient(StoreError):
    """Base of the errors that may pass if the operation is tried again."""

    fix = "try again in a moment"


class Throttled(Transient):
    """The store asks its clients to slow down."""

    fix = "the store limits this client: lower the concurrency, or raise its limit"


class Unavailable(Transient):
    """The store cannot be reached, or answers with a server error."""

    fix = (
        "check the address, the port, the scheme (http or https) and that the store runs; of a directory, that its "
        "disk is mounted and healthy"
    )


class Deadline(Transient):
    """The store did not answer in time."""

    fix = (
        "check the network path and the load on the store, or give it longer (`--timeout`; of the server's tier, its "
        "deadlines)"
    )
