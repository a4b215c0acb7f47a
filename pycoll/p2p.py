"""Messages between two ranks of a communicator."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import buffers
from ._handle import Handle
from ._lib import check, ffi, lib
from .arguments import integer
from .buffers import DTYPE_CODES, BufferLike
from .request import Call, Pair, Request, Status

ANY_SOURCE: int = lib.COLL_ANY_SOURCE
ANY_TAG: int = lib.COLL_ANY_TAG

_from_buffer = ffi.from_buffer
_CHARS = ffi.typeof("char[]")
_NOT_PLAIN = (BufferError, KeyError, TypeError, ValueError)


class PointToPoint(Handle):
    """Tags are integers from 0. Messages of one sender with one tag arrive in the order in which they were sent."""

    __slots__ = ()

    def send(self, x: BufferLike, dest: int, tag: int = 0, *, timeout: float | None = None) -> None:
        """Sends the elements of ``x`` to rank ``dest``; returns when ``x`` may be changed again."""
        if timeout is None and type(x) is np.ndarray:
            try:
                buffer = _from_buffer(_CHARS, x)
                code = DTYPE_CODES[x.dtype]
                dest = self._member(dest, "dest")
                tag = integer(tag, "tag", 0)
            except _NOT_PLAIN:
                pass
            else:
                try:
                    status = lib.pycoll_send(buffer, x.size, code, dest, tag, self._pointer)
                    if status:
                        self._finish(status)
                    return
                except BaseException as exception:
                    self.interrupted(exception)
                    raise
        self.isend(x, dest, tag, timeout=timeout).wait()

    def isend(self, x: BufferLike, dest: int, tag: int = 0, *, timeout: float | None = None) -> Request:
        """send() without waiting; ``x`` must not change until the request is done. Its result is None."""
        return self._start("send", self._send_call, (x, dest, tag), timeout)

    def recv(
        self, out: BufferLike, source: int = ANY_SOURCE, tag: int = ANY_TAG, *, timeout: float | None = None
    ) -> Status:
        """Receives one message of rank ``source`` with ``tag`` into ``out``.

        The message may be shorter than ``out``, whose further elements then stay as they are; a longer one raises
        TruncateError. Returns Status(source, tag, count), the count in elements of ``out``'s dtype.
        """
        status: Status = self.irecv(out, source, tag, timeout=timeout).wait()
        return status

    def irecv(
        self, out: BufferLike, source: int = ANY_SOURCE, tag: int = ANY_TAG, *, timeout: float | None = None
    ) -> Request:
        """recv() without waiting; the request's result is the Status."""
        return self._start("recv", self._recv_call, (out, source, tag), timeout)

    def sendrecv(
        self,
        x: BufferLike,
        dest: int,
        out: BufferLike,
        source: int = ANY_SOURCE,
        sendtag: int = 0,
        recvtag: int = ANY_TAG,
        *,
        timeout: float | None = None,
    ) -> Status:
        """Sends ``x`` to ``dest`` and receives ``out`` from ``source`` at once; ``x`` and ``out`` lie apart."""
        request = self.isendrecv(x, dest, out, source, sendtag, recvtag, timeout=timeout)
        status: Status = request.wait()
        return status

    def isendrecv(
        self,
        x: BufferLike,
        dest: int,
        out: BufferLike,
        source: int = ANY_SOURCE,
        sendtag: int = 0,
        recvtag: int = ANY_TAG,
        *,
        timeout: float | None = None,
    ) -> Request:
        """sendrecv() without waiting; the request's result is the Status."""
        send, limit = self._describe("sendrecv", self._send_call, (x, dest, sendtag, "sendtag"), timeout)
        receive, _ = self._describe("sendrecv", self._recv_call, (out, source, recvtag, "recvtag"), timeout)
        buffers.check_apart(send.inputs[0], receive.outputs[0])
        incoming = self._submit(lib.coll_irecv, receive)
        return Request(Pair(self._submit(lib.coll_isend, send), incoming), limit)

    def _send_call(self, x: BufferLike, dest: int, tag: int, tag_name: str = "tag") -> Call:
        memory = buffers.source(x)
        arguments = (
            memory.address,
            memory.count,
            memory.code,
            self._member(dest, "dest"),
            integer(tag, tag_name, 0),
        )
        return Call("send", arguments, None, (memory,))

    def _recv_call(self, out: BufferLike, source: int, tag: int, tag_name: str = "tag") -> Call:
        memory = buffers.target(out)
        if source != ANY_SOURCE:
            source = self._member(source, "source")
        if tag != ANY_TAG:
            tag = integer(tag, tag_name, 0)

        def finish(request: Any) -> Status:
            got = ffi.new("coll_recv_status_t *")
            check(lib.coll_request_status(request, got))
            return Status(got.source, got.tag, got.bytes // memory.array.itemsize)

        arguments = (memory.address, memory.count, memory.code, source, tag)
        return Call("recv", arguments, None, (), (memory,), finish)
