"""Messages between two ranks."""

from __future__ import annotations

import numpy as np
import pytest
from ranks import ranks

import pycoll


@ranks(2, 3)
def test_ring_of_sendrecv(comm):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for count in (0, 1, 1000, 100_000):
        out = np.empty(count, np.int64)
        status = comm.sendrecv(np.full(count, comm.rank), right, out, left, sendtag=3, recvtag=3)
        assert status == pycoll.Status(source=left, tag=3, count=count)
        assert (out == left).all()
    request = comm.isendrecv(np.full(4, comm.rank), right, out := np.empty(4, int), left)
    assert request.wait().source == left and request.done and (out == left).all()


@ranks(2)
def test_order_tags_and_wildcards(comm):
    if comm.rank == 0:
        for value in range(20):
            comm.send(np.array([value, value]), 1, tag=value % 2)
        comm.send(np.arange(3.0), 1, tag=9)
    else:
        out = np.empty(2, np.int64)
        for value in range(1, 20, 2):
            assert comm.recv(out, 0, 1) == (0, 1, 2) and out.tolist() == [value, value]
        for value in range(0, 20, 2):
            comm.recv(out, source=0, tag=0)
            assert out.tolist() == [value, value]
        longer = np.full(5, -1.0)
        status = comm.recv(longer)
        assert (status.source, status.tag, status.count) == (0, 9, 3)
        assert longer.tolist() == [0, 1, 2, -1, -1]


@ranks(2)
def test_shorter_message_into_a_view(comm):
    if comm.rank == 0:
        comm.send(np.arange(3.0), 1)
    else:
        whole = np.full(12, 7.0)
        assert comm.recv(whole[::2]).count == 3
        assert whole.tolist() == [0, 7, 1, 7, 2, 7, 7, 7, 7, 7, 7, 7]


@ranks(2)
def test_too_long_a_message(comm):
    for count in (10, 100_000):
        if comm.rank == 0:
            comm.send(np.zeros(count), 1, tag=1)
            comm.send(np.full(count, 5.0), 1, tag=2)
        else:
            with pytest.raises(pycoll.TruncateError):
                comm.recv(np.zeros(count - 1), 0, 1)
            after = np.zeros(count)
            comm.recv(after, 0, 2)
            assert (after == 5).all()
    comm.barrier()


@ranks(2)
def test_arguments(comm):
    x = np.zeros(3)
    with pytest.raises(ValueError, match="dest is 2, allowed are 0 to 1"):
        comm.send(x, 2)
    with pytest.raises(ValueError, match="source is -2, allowed are 0 to 1"):
        comm.recv(x, -2)
    with pytest.raises(ValueError, match="tag is -5"):
        comm.send(x, 0, -5)
    with pytest.raises(TypeError, match="dest is a str"):
        comm.isend(x, "1")
    with pytest.raises(ValueError, match="out overlaps x"):
        comm.sendrecv(x, 0, x, 0)
    with pytest.raises(TypeError, match="x is a list"):
        comm.send([1], 1)
    comm.barrier()


@ranks(2)
def test_to_itself(comm):
    request = comm.irecv(out := np.zeros(4), comm.rank)
    comm.send(np.arange(4.0), comm.rank)
    assert request.wait().source == comm.rank and out.tolist() == [0, 1, 2, 3]
