"""The exceptions. Each failure of libcoll becomes one of them; errors found in Python use the same classes."""

from __future__ import annotations

from collections.abc import Sequence


class CollError(RuntimeError):
    """Any failure of a call.

    Attributes:
        ranks: the ranks that the error is about (missing, dead, disagreeing), in the communicator of the call.
        operation: the call, such as ``"allreduce"``, or ``""``.
        sequence: the call's number on its communicator, or None.
        code: the negative status of libcoll (``COLL_ERR_...`` of coll.h).
    """

    def __init__(
        self,
        message: str = "",
        *,
        code: int = 0,
        ranks: Sequence[int] = (),
        operation: str = "",
        sequence: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.ranks = tuple(ranks)
        self.operation = operation
        self.sequence = sequence


class ArgumentError(CollError, ValueError):
    """An argument has a value that is not allowed."""


class DatatypeError(CollError, TypeError):
    """An object or datatype that this call cannot take, or an operator that does not apply to the datatype."""


class OutOfMemoryError(CollError, MemoryError):
    """libcoll could not get memory."""


class CollTimeoutError(CollError, TimeoutError):
    """The deadline of a call passed; ``ranks`` were missing. The communicator is broken from then on."""


class RankFailedError(CollError):
    """A peer died or left while it was needed; ``ranks`` says which. The communicator is broken from then on."""


class MismatchError(CollError, ValueError):
    """The ranks called different collectives, or the same one with different arguments."""


class CommClosedError(CollError):
    """The communicator was closed, is broken by an earlier error, or the library was finalized."""


class BootstrapError(CollError):
    """The ranks could not meet."""


class ConfigError(CollError, ValueError):
    """An environment variable has a value that is not allowed, or the ranks' values differ."""


class StateError(CollError):
    """The call is not possible now: before init(), after fork, or on a request that runs already."""


class TruncateError(CollError, ValueError):
    """A message was longer than the buffer that was to receive it."""


class PeerError(CollError):
    """Another rank found an error in its own call of this collective; ``ranks`` says which."""
