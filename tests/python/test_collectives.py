"""Results of the collectives: values, roots, datatypes and operators, on several numbers of ranks."""

from __future__ import annotations

import functools

import ml_dtypes
import numpy as np
import pytest
from ranks import ranks

import pycoll

INTEGERS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
FLOATS = ["float16", "bfloat16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
DTYPES = ["bool", *INTEGERS, *FLOATS, *COMPLEX]
BITWISE = ["band", "bor", "bxor"]
LOGICAL = ["land", "lor", "lxor"]
PAIRS = ["minloc", "maxloc"]


def dtype_of(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def allowed(op: str, name: str) -> bool:
    if op in ("sum", "prod"):
        return True
    if op == "avg" or op in PAIRS:
        return name != "bool" and (op == "avg" or name not in COMPLEX)
    if op in ("min", "max"):
        return name not in COMPLEX
    if op in LOGICAL:
        return name not in COMPLEX
    return name in ("bool", *INTEGERS)


def inputs(size: int, name: str, count: int = 23) -> list[np.ndarray]:
    """One array a rank, the same wherever it is computed, with values whose folds are exact in every dtype."""
    random = np.random.default_rng(7)
    low = -2 if name.startswith(("int", "float", "bfloat", "complex")) else 0
    values = random.integers(low, 3, (size, count))
    if name in COMPLEX:
        values = values + 1j * random.integers(-1, 2, (size, count))
    return [row.astype(dtype_of(name)) for row in values]


def fold(op: str, rows: list[np.ndarray]) -> np.ndarray:
    """What numpy says the result is."""
    dtype = rows[0].dtype
    if op == "avg":
        if dtype.kind in "iu":
            return np.trunc(np.sum(np.array(rows, np.float64), axis=0) / len(rows)).astype(dtype)
        wide = np.array(rows, complex if dtype.kind == "c" else float).sum(axis=0) / len(rows)
        return wide.astype(dtype)
    if op in PAIRS:
        return fold_pairs(op, rows)
    functions = {
        "sum": np.logical_or if dtype.kind == "b" else np.add,
        "prod": np.logical_and if dtype.kind == "b" else np.multiply,
        "min": np.minimum,
        "max": np.maximum,
        "land": np.logical_and,
        "lor": np.logical_or,
        "lxor": np.logical_xor,
        "band": np.bitwise_and,
        "bor": np.bitwise_or,
        "bxor": np.bitwise_xor,
    }
    return functools.reduce(lambda a, b: functions[op](a, b).astype(dtype), rows)


def fold_pairs(op: str, rows: list[np.ndarray]) -> np.ndarray:
    best = rows[0].reshape(-1, 2).copy()
    for row in rows[1:]:
        for mine, other in zip(best, row.reshape(-1, 2), strict=True):
            better = other[0] < mine[0] if op == "minloc" else other[0] > mine[0]
            if better or (other[0] == mine[0] and other[1] < mine[1]):
                mine[:] = other
    return best.reshape(-1)


@ranks(1, 3, 4)
def test_every_dtype_with_every_op(comm):
    for name in DTYPES:
        for op in [member.value for member in pycoll.Op]:
            rows = inputs(comm.size, name, 24)
            x = rows[comm.rank]
            if not allowed(op, name):
                with pytest.raises(TypeError, match=f"{op}.*{name}.*allowed are"):
                    comm.allreduce(x, op=op)
                continue
            got = comm.allreduce(x, op=op)
            assert got.dtype == x.dtype and got.shape == x.shape, (op, name)
            expected = fold(op, rows)
            if op == "avg" and name in FLOATS + COMPLEX:
                tolerance = 2 * float(ml_dtypes.finfo(dtype_of(name)).eps)
                assert np.allclose(got.astype(complex), expected.astype(complex), tolerance, tolerance), (op, name)
            else:
                assert (got == expected).all(), (op, name, got, expected)


@ranks(1, 2, 3, 4, 8)
def test_reduce_to_every_root(comm):
    x = np.arange(17.0) * (comm.rank + 1) + 0.25
    before = x.tobytes()
    for root in range(comm.size):
        for op in ("sum", "prod", "min", "max", "avg"):
            got = comm.reduce(x, op=op, root=root)
            assert x.tobytes() == before
            if comm.rank != root:
                assert got is None
            else:
                rows = [np.arange(17.0) * (rank + 1) + 0.25 for rank in range(comm.size)]
                np.testing.assert_allclose(got, fold(op, rows), rtol=1e-15)


@ranks(1, 2, 3, 4)
def test_wrong_root_is_an_error_on_every_rank_and_the_next_call_works(comm):
    for root in (-1, comm.size, 2**40):
        for call in (comm.reduce, comm.broadcast):
            with pytest.raises(ValueError, match=rf"root is {root}, allowed are 0 to {comm.size - 1}") as caught:
                call(np.ones(3), root=root)
            assert caught.value.operation == call.__name__
    for call in (comm.reduce, comm.broadcast):
        with pytest.raises(TypeError, match="root is a float"):
            call(np.ones(3), root=1.0)
    assert comm.allreduce(np.ones(2)).tolist() == [comm.size] * 2


@ranks(1, 2, 3, 5)
def test_broadcast_is_in_place_and_returns_its_argument(comm):
    for root in range(comm.size):
        for count in (1, 7, 5000):
            x = np.full(count, float(comm.rank))
            assert comm.broadcast(x, root) is x
            assert (x == root).all()
    x = np.full(3, comm.rank)
    assert comm.bcast(x, root=comm.size - 1) is x and (x == comm.size - 1).all()
    fixed = np.arange(3.0)
    fixed.flags.writeable = comm.rank != 0
    assert comm.broadcast(fixed).tolist() == [0, 1, 2]


@ranks(1, 2, 3, 5)
def test_allgather_shapes(comm):
    x = np.full((2, 3), comm.rank, np.int32)
    got = comm.allgather(x)
    assert got.shape == (comm.size, 2, 3)
    assert (got == np.arange(comm.size)[:, None, None]).all()
    flat = np.empty(comm.size * 6, np.int32)
    assert comm.allgather(x, flat) is flat
    assert flat.tobytes() == got.tobytes()
    in_place = np.zeros((comm.size, 4))
    in_place[comm.rank] = comm.rank + 0.5
    comm.allgather(in_place[comm.rank], in_place)
    assert (in_place == np.arange(comm.size)[:, None] + 0.5).all()
    assert comm.allgather(np.float32(comm.rank)).tolist() == list(range(comm.size))


@ranks(2, 3)
def test_large_arrays_and_the_same_bits_on_every_rank(comm):
    rows = [np.random.default_rng(rank).standard_normal(300_001) for rank in range(comm.size)]
    for count in (300_001, 70_000, 299_999) * 5:  # a last piece that is shorter than the others
        x = rows[comm.rank][:count]
        got = comm.allreduce(x)
        np.testing.assert_allclose(got, sum(row[:count] for row in rows))
        assert all(row.tobytes() == got.tobytes() for row in comm.allgather(got))


@ranks(3)
def test_nan_propagates_through_min_and_max(comm):
    x = np.array([1.0, np.nan if comm.rank == 1 else 2.0, 3.0])
    for op in ("min", "max"):
        got = comm.allreduce(x, op=op)
        assert got[0] == 1 and np.isnan(got[1]) and got[2] == 3


@ranks(3)
def test_averages_of_integers_truncate_toward_zero(comm):
    x = np.array([-1, -2, 1, 2, 100], np.int8)
    assert comm.allreduce(x * np.int8(comm.rank == 0), op="avg").tolist() == [0, 0, 0, 0, 33]
    assert comm.allreduce(np.array([-5], np.int64) - (comm.rank == 2), op="avg").tolist() == [-5]


@ranks(2)
def test_op_by_member_and_by_name(comm):
    x = np.array([comm.rank, 5])
    assert comm.allreduce(x, op=pycoll.Op.MAX).tolist() == comm.allreduce(x, op="max").tolist() == [1, 5]
    with pytest.raises(ValueError, match="op is 'add', allowed are sum, prod"):
        comm.allreduce(x, op="add")
    for wrong in (0, None, ["sum"]):
        with pytest.raises(TypeError, match="op is a"):
            comm.allreduce(x, op=wrong)
    assert comm.allreduce(x).tolist() == [1, 10]


@ranks(2, 4)
def test_barrier_waits_for_everyone(comm, tmp_path):
    for turn in range(3):
        (tmp_path / f"turn{turn}.{comm.rank}").touch()
        comm.barrier()
        assert all((tmp_path / f"turn{turn}.{rank}").exists() for rank in range(comm.size))
