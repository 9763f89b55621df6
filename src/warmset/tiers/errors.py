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


class NotFound(StoreError):
    """The key is not in the store."""


class TooLarge(StoreError):
    """The stored object is larger than the buffer."""


class Corrupt(StoreError):
    """The stored bytes are not the bytes that were put under this key."""


class Locked(StoreError):
    """The object is encrypted, and the key at hand does not open it."""


class Full(StoreError):
    """The store has no space left for this object."""


class Denied(StoreError):
    """The store refuses these credentials, or this operation for them."""


class Transient(StoreError):
    """Base of the errors that may pass if the operation is tried again."""


class Throttled(Transient):
    """The store asks its clients to slow down."""


class Unavailable(Transient):
    """The store cannot be reached, or answers with a server error."""


class Deadline(Transient):
    """The store did not answer in time."""
