"""Wrong arguments: each error names the argument, what was given and what is allowed."""

from __future__ import annotations

import gc
import math
import sys

import numpy as np
import pytest
from ranks import ranks

import pycoll

WRONG_SHAPES = [
    (-1, ValueError, "shape is -1, allowed are sizes from 0 up"),
    ((3, -2), ValueError, r"shape is \(3, -2\), allowed"),
    ("ab", TypeError, "shape is 'ab', it must be an int or a sequence of ints"),
    (None, TypeError, "shape is None, it must"),
    (3.5, TypeError, "shape is 3.5, it must"),
    ((2, 1.5), TypeError, r"shape is \(2, 1.5\), it must"),
    (2**62, MemoryError, r"shape \(4611686018427387904,\) of float64 takes 36893488147419103232 bytes"),
    ((2**40, 2**40), MemoryError, "takes"),
    (2**50, MemoryError, "more than this machine has"),
]


@pytest.mark.parametrize(("shape", "kind", "text"), WRONG_SHAPES)
def test_shapes_of_symmetric_memory(shape, kind, text):
    for function in (pycoll.empty, pycoll.zeros, lambda given: pycoll.full(given, 1.0)):
        with pytest.raises(kind, match=text):
            function(shape)


def test_every_shape_that_numpy_takes():
    for shape in (3, np.int8(3), [2, 3], (np.int64(2), 3), np.array([2, 3]), (), (0, 5), range(1, 4), np.array(4)):
        assert pycoll.empty(shape, np.int8).shape == np.empty(shape, np.int8).shape


@pytest.mark.parametrize("dtype", ["nonsense", 5, object, [("a", object)]])
def test_dtypes_of_symmetric_memory(dtype):
    with pytest.raises(TypeError, match="dtype is "):
        pycoll.empty(3, dtype)


def test_wait_all():
    for requests, text in ((5, "requests is a int"), ([5], r"requests\[0\] is a int, it must be a pycoll.Request")):
        with pytest.raises(TypeError, match=text):
            pycoll.wait_all(requests)


def test_a_request_that_could_not_be_made_goes_silently(monkeypatch):
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    for kind in (pycoll.Request, pycoll.PersistentRequest):
        with pytest.raises(TypeError):
            kind()
    gc.collect()
    assert not unraisable


@pytest.mark.parametrize("address", [5, b"localhost:4000", "local\0host:4000"])
def test_address(address):
    with pytest.raises((TypeError, ValueError), match="address "):
        pycoll.init(rank=0, size=2, address=address)


@ranks(1)
def test_what_is_not_seconds(comm):
    for timeout in ("1", b"1", True, [], object()):
        with pytest.raises(TypeError, match="timeout is .*, allowed are seconds or None"):
            comm.barrier(timeout=timeout)
    for timeout in (0, -1, math.nan, -math.inf):
        with pytest.raises(ValueError, match="timeout is .*, allowed are seconds greater than 0"):
            comm.barrier(timeout=timeout)
    comm.barrier(timeout=math.inf)
    comm.barrier(timeout=np.float32(5))


@ranks(1)
def test_texts(comm):
    for message in (5, None, b"bytes"):
        with pytest.raises(TypeError, match="message is a .*, it must be a str"):
            comm.abort(message)
    with pytest.raises(TypeError, match="operation is a list, it must be a str"):
        comm.explain([], 8)
    with pytest.raises(ValueError, match="operation is 'sendrecv', allowed are barrier.*allgather$"):
        comm.explain("sendrecv", 8)
    with pytest.raises(TypeError, match="dtype is 'nonsense'"):
        comm.explain("allreduce", 8, "nonsense")
    with pytest.raises(TypeError, match="algorithm is a int"):
        pycoll.schedule(5, 0, 1)


@ranks(1, 2)
def test_pairs_lie_along_the_last_axis(comm):
    for shape in ((2, 3), (3,), (), (4, 1)):
        for op in ("minloc", "maxloc"):
            with pytest.raises(ValueError, match="work on pairs"):
                comm.allreduce(np.ones(shape), op=op)
            with pytest.raises(ValueError, match="work on pairs"):
                comm.reduce(np.ones(shape), op=op, root=comm.size - 1)
    got = comm.allreduce(np.array([[3.0, 0.0], [comm.rank, comm.rank]]), op="maxloc")
    assert got.tolist() == [[3.0, 0.0], [comm.size - 1] * 2]
