"""What may be an input and an output: shapes, layouts, kinds of objects, and the errors for what may not."""

from __future__ import annotations

import array
import ctypes

import numpy as np
import pytest
from ranks import ranks

import pycoll
from pycoll import buffers


@pytest.fixture(scope="module")
def comm():
    return pycoll.init()


class Dlpack:
    """The DLPack face of an array, and nothing else."""

    def __init__(self, values, device=None):
        self.values = values
        self.device = device

    def __dlpack__(self, **options):
        if self.device:
            raise AssertionError("memory of a device must not be asked for")
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device or self.values.__dlpack_device__()


class FalseGpuArray:
    """Says that it is GPU memory at an address where nothing is."""

    __cuda_array_interface__ = {"shape": (4,), "typestr": "<f8", "data": (0xDEAD0000, False), "version": 3}


class FalseGpuSubclass(np.ndarray):
    __cuda_array_interface__ = FalseGpuArray.__cuda_array_interface__


@ranks(1, 3)
def test_shapes_are_kept(comm):
    for shape in ((), (0,), (1, 0, 2), (1,), (2, 3, 4)):
        x = np.full(shape, comm.rank + 1.0)
        total = comm.size * (comm.size + 1) / 2
        got = comm.allreduce(x)
        assert type(got) is np.ndarray and got.shape == shape and (got == total).all()
        gathered = comm.allgather(x)
        assert gathered.shape == (comm.size, *shape)
        assert all((gathered[rank] == rank + 1).all() for rank in range(comm.size))
        reduced = comm.reduce(x)
        assert (reduced.shape == shape and (reduced == total).all()) if comm.rank == 0 else reduced is None
        assert comm.broadcast(x) is x and (x == 1).all()
    scalar = comm.allreduce(np.float32(comm.rank))
    assert scalar.shape == () and scalar.dtype == np.float32 and scalar == sum(range(comm.size))


# Views of 12 float64 in an array of 64, by kind.
VIEWS = {
    "stride": lambda whole: whole[3:51:4],
    "reverse": lambda whole: whole[20:8:-1],
    "transposed": lambda whole: whole[5:17].reshape(4, 3).T,
    "fortran": lambda whole: whole.reshape(8, 8, order="F")[2:6, 1:4],
    "offset": lambda whole: whole[11:23],
    "unaligned": lambda whole: whole.view(np.uint8)[13:109].view(np.float64),
}


def with_view_set(kind, values):
    """A whole in which only the view was set."""
    whole = np.full(64, 7.0)
    view = VIEWS[kind](whole)
    view[...] = values.reshape(view.shape)
    return whole


@ranks(1, 2, 3)
def test_layouts_in_and_out(comm):
    base = np.arange(12.0)
    for kind, view in VIEWS.items():
        x = view(with_view_set(kind, base * (comm.rank + 1)))
        total = base * sum(range(1, comm.size + 1))
        assert comm.allreduce(x).shape == x.shape and (comm.allreduce(x).ravel() == total).all(), kind
        assert (comm.allgather(x)[comm.size - 1].ravel() == base * comm.size).all(), kind
        for out_kind, out_view in VIEWS.items():
            whole = np.full(64, 7.0)
            out = out_view(whole)
            assert comm.allreduce(x, out) is out
            assert whole.tobytes() == with_view_set(out_kind, total).tobytes(), (kind, out_kind)
        whole = with_view_set(kind, base * (comm.rank + 1))
        y = view(whole)
        assert comm.broadcast(y, comm.size - 1) is y
        assert whole.tobytes() == with_view_set(kind, base * comm.size).tobytes(), kind
        p = comm.allreduce_init(x, x)
        x[...] = 1.0
        assert p() is x and (x == comm.size).all()
        p()
        assert (x == comm.size**2).all(), kind


@ranks(2)
def test_a_destination_inside_a_larger_array(comm):
    whole = np.zeros(100, np.int64)
    comm.allreduce(np.arange(10), whole[37:47])
    comm.broadcast(whole[60:70], 0)
    comm.allgather(np.full(3, comm.rank + 1), whole[90:96])
    expected = np.zeros(100, np.int64)
    expected[37:47] = 2 * np.arange(10)
    expected[90:96] = [1, 1, 1, 2, 2, 2]
    assert whole.tolist() == expected.tolist()


@ranks(1, 2)
def test_in_place_and_overlap(comm):
    x = np.arange(8.0) + comm.rank
    expected = comm.allreduce(x)
    assert comm.allreduce(x, x) is x and x.tolist() == expected.tolist()
    y = np.arange(8.0)
    assert comm.allreduce(y, out=y[:]).tolist() == (np.arange(8.0) * comm.size).tolist()
    z = np.arange(24.0)
    for shift in (1, 7, -1, -7):
        for call in (comm.allreduce, comm.iallreduce, comm.allreduce_init):
            with pytest.raises(ValueError, match="out overlaps x"):
                call(z[8:16], z[8 + shift : 16 + shift])
    assert z.tolist() == list(range(24))
    wide = np.zeros((comm.size, 4))
    if comm.size > 1:
        with pytest.raises(ValueError, match="out overlaps x"):
            comm.allgather(wide.reshape(-1)[1:5], wide)
    comm.allreduce(z[8:16], z[:8])
    assert z[:8].tolist() == (np.arange(8.0, 16) * comm.size).tolist()


def test_objects_with_the_buffer_protocol(comm):
    assert comm.allreduce(array.array("d", [1, 2])).tolist() == [1, 2]
    assert comm.allreduce(bytearray(b"ab")).tolist() == [97, 98]
    assert comm.allreduce(b"ab").dtype == np.uint8
    assert comm.allreduce(memoryview(array.array("h", [3]))).dtype == np.int16
    assert comm.allreduce((ctypes.c_float * 2)(1.5, 2.5)).tolist() == [1.5, 2.5]
    assert comm.allreduce(np.zeros((1, 2)).view(np.recarray)).shape == (1, 2)
    out = array.array("d", [0, 0])
    assert comm.allreduce(np.array([1.0, 2.0]), out) is out and out.tolist() == [1, 2]
    raw = bytearray(16)
    assert comm.broadcast(raw) is raw
    for code in "bBhHiIlLqQfd":
        assert comm.allreduce(array.array(code, [1])).tolist() == [1], code
    for char in "lqLQ":
        assert comm.allreduce(np.ones(2, char), np.zeros(2, "q" if char in "lq" else "Q")).tolist() == [1, 1], char


def test_dlpack(comm):
    values = np.arange(4.0)
    assert comm.allreduce(Dlpack(values)).tolist() == [0, 1, 2, 3]
    out = np.zeros(4)
    wrapped = Dlpack(out)
    assert comm.allreduce(Dlpack(values), wrapped) is wrapped
    assert out.tolist() == [0, 1, 2, 3]
    with pytest.raises(TypeError, match="x is in the memory of a device"):
        comm.allreduce(Dlpack(values, device=(2, 0)))


def test_false_gpu_memory_is_never_looked_at(comm):
    for false in (FalseGpuArray(), np.zeros(4).view(FalseGpuSubclass)):
        with pytest.raises(TypeError, match="x .* is GPU memory"):
            comm.allreduce(false)
        with pytest.raises(TypeError, match="out .* is GPU memory"):
            comm.allreduce(np.zeros(4), false)
        with pytest.raises(TypeError, match="GPU memory"):
            comm.broadcast(false)


@pytest.mark.parametrize("x", [[1, 2], {"a": 1}, (1.0,), 3, 2.5, "text", None, object()], ids=repr)
def test_other_objects_point_to_asarray(comm, x):
    for call in (comm.allreduce, comm.allgather, comm.broadcast, comm.reduce, comm.iallreduce, comm.allgather_init):
        with pytest.raises(TypeError, match=f"x is a {type(x).__name__}, .*numpy.asarray"):
            call(x)


def test_wrong_dtypes(comm):
    for x in (
        np.zeros(2, ">f8"),
        np.zeros(2, "M8[s]"),
        np.zeros(2, object),
        np.zeros(2, "U3"),
        np.zeros(2, [("a", int)]),
        np.zeros(2, np.longdouble),
    ):
        with pytest.raises(TypeError, match="x has dtype .*allowed are bool, int8"):
            comm.allreduce(x)
    with pytest.raises(TypeError, match="other byte order"):
        comm.broadcast(np.zeros(2, ">i4"))
    with pytest.raises(TypeError, match="masked"):
        comm.allreduce(np.ma.zeros(2))
    with pytest.raises(TypeError, match="out has dtype float32, it must be float64"):
        comm.allreduce(np.zeros(2), np.zeros(2, np.float32))
    with pytest.raises(TypeError, match="out has dtype"):
        comm.allreduce(np.zeros(2), np.zeros(2, ">f8"))


def test_wrong_outputs(comm):
    fixed = np.zeros(2)
    fixed.flags.writeable = False
    for out in (fixed, bytes(16), memoryview(bytes(16)).cast("d"), np.float64(0)):
        with pytest.raises((TypeError, ValueError), match="read-only|has dtype"):
            comm.allreduce(np.zeros(2), out)
    with pytest.raises(ValueError, match="out has 3 elements, it must have 2"):
        comm.allreduce(np.zeros(2), np.zeros(3))
    with pytest.raises(ValueError, match="out has 1 elements, it must have 2"):
        comm.allgather(np.zeros(2), np.zeros(1))
    for call in (comm.recv, comm.irecv):
        with pytest.raises(ValueError, match="out is read-only"):
            call(fixed)


def test_bfloat16_without_ml_dtypes_is_explained(monkeypatch):
    monkeypatch.setattr(buffers, "BFLOAT16", None)
    with pytest.raises(TypeError, match="bfloat16 needs the package ml_dtypes"):
        buffers.dtype_code(np.dtype("U3"), "x")


@ranks(2)
def test_symmetric_memory(comm):
    x = pycoll.empty((3, 4), np.float32)
    x[...] = comm.rank
    assert comm.allreduce(x).tolist() == np.ones((3, 4)).tolist()
    assert pycoll.zeros(5).tolist() == [0] * 5 and pycoll.zeros(5).dtype == float
    assert pycoll.full((2, 2), 7, np.int8).tolist() == [[7, 7], [7, 7]]
    assert pycoll.full(2, 7).dtype == np.asarray(7).dtype
    assert pycoll.empty(0).shape == (0,) and pycoll.empty((2, 0), int).shape == (2, 0)
    assert x.ctypes.data % 64 == 0
    part = pycoll.full(1000, 3.0)[10:20]
    for _ in range(20):
        pycoll.full(1000, 9.0)
    assert part.tolist() == [3.0] * 10
    with pytest.raises(ValueError):
        pycoll.empty(-1)
    with pytest.raises(TypeError):
        pycoll.empty(3, object)
