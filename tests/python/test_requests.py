"""Operations under way: results, order, what they keep alive, persistent ones, asyncio."""

from __future__ import annotations

import asyncio
import gc
import random
import time
import weakref

import numpy as np
import pytest
from ranks import ranks

import pycoll


@ranks(1, 3)
def test_every_nonblocking_form(comm):
    total = sum(range(comm.size))
    x = np.full(5, float(comm.rank))
    assert comm.iallreduce(x).wait().tolist() == [total] * 5
    assert comm.ibarrier().wait() is None
    out = np.zeros(5)
    request = comm.iallreduce(x, out, "max")
    assert request.wait() is out and request.done and request.test() and request.wait() is out
    reduced = comm.ireduce(x, root=comm.size - 1).wait()
    assert reduced is None if comm.rank != comm.size - 1 else reduced.tolist() == [total] * 5
    assert comm.iallgather(x).wait()[:, 0].tolist() == list(range(comm.size))
    y = np.full(5, comm.rank)
    assert comm.ibroadcast(y, comm.size - 1).wait() is y and (y == comm.size - 1).all()
    assert "done" in repr(request)


@ranks(2, 3)
def test_many_in_flight_in_any_order(comm):
    order = random.Random(comm.rank)
    for turn in range(200):
        count = 2 if turn % 2 else 20
        requests = [comm.iallreduce(np.full(9, comm.rank + 10.0 * index)) for index in range(count)]
        waiting = list(enumerate(requests))
        order.shuffle(waiting)
        for index, request in waiting:
            expected = comm.size * 10 * index + sum(range(comm.size))
            assert request.wait().tolist() == [expected] * 9
    results = pycoll.wait_all([comm.iallgather(np.int64(comm.rank)), comm.ibarrier(), comm.iallreduce(np.ones(2))])
    assert results[0].tolist() == list(range(comm.size)) and results[1] is None and (results[2] == comm.size).all()
    assert pycoll.wait_all([]) == []


@ranks(2)
def test_alternating_sizes_on_persistent_handles(comm):
    handles = []
    for nbytes in (1 << 24, 1 << 20, 1 << 14):
        x = np.empty(nbytes // 8)
        handles.append((x, comm.allreduce_init(x)))
    for turn in range(6):
        for x, handle in handles:
            x[:] = turn + comm.rank
            got = handle()
            assert (got == 2 * turn + 1).all()


@ranks(1, 3)
def test_persistent_forms(comm):
    x, y = np.zeros(4), np.zeros(4)
    calls = {
        "allreduce": comm.allreduce_init(x, out=y),
        "reduce": comm.reduce_init(x, y, root=0),
        "broadcast": comm.broadcast_init(x, 0),
        "allgather": comm.allgather_init(x),
        "barrier": comm.barrier_init(),
    }
    for turn in range(50):
        x[:] = turn + comm.rank
        total = comm.size * turn + sum(range(comm.size))
        assert calls["allreduce"]() is y and (y == total).all()
        y[:] = 0
        assert calls["reduce"]() is (y if comm.rank == 0 else None)
        assert (y == (total if comm.rank == 0 else 0)).all()
        assert calls["allgather"]()[:, 0].tolist() == [turn + rank for rank in range(comm.size)]
        assert calls["broadcast"]() is x and (x == turn).all()
        assert calls["barrier"]() is None
    p = calls["allreduce"]
    if comm.rank > 0:
        comm.recv(np.zeros(1), 0)
    assert p.start() is p
    if comm.rank == 0 and comm.size > 1:
        with pytest.raises(pycoll.StateError, match="running"):
            p.start()
        for rank in range(1, comm.size):
            comm.send(np.zeros(1), rank)
    assert p.wait() is y
    assert p(timeout=5) is y
    fresh = comm.barrier_init()
    with pytest.raises(pycoll.CollError, match="not started"):
        fresh.wait()
    strided = np.zeros(8)
    q = comm.allreduce_init(strided[::2], strided[1::2])
    strided[::2] = comm.rank
    assert (q() == sum(range(comm.size))).all()
    strided[::2] = 1
    assert (q() == comm.size).all() and (strided[1::2] == comm.size).all()


@ranks(1)
def test_a_persistent_request_is_waited_for_between_its_starts(comm):
    """Also where it has ended by then, which nobody can foresee."""
    p = comm.barrier_init()
    for _ in range(2):
        p.start()
        with pytest.raises(pycoll.StateError, match="running"):
            p.start()
        with pytest.raises(pycoll.StateError, match="running"):
            p()
        p.wait()


@ranks(2, 4)
def test_dropped_inputs_and_requests(comm):
    """Peers get the right data when nobody holds on to an operation any more."""
    for turn in range(30):
        count = (3, 3000, 200_000)[turn % 3]
        if comm.rank == 0:
            comm.ibroadcast(np.full(count, float(turn)))
            comm.iallreduce(np.full(count, float(turn)))
            comm.isend(np.full(count, turn + 0.5), 1)
            gc.collect()
            for _ in range(4):
                np.full(count, -1.0)
        else:
            got = comm.broadcast(np.zeros(count))
            assert (got == turn).all()
            assert (comm.allreduce(np.zeros(count)) == turn).all()
            if comm.rank == 1:
                comm.recv(got, 0)
                assert (got == turn + 0.5).all()
    comm.barrier()


@ranks(2)
def test_buffers_are_let_go_when_the_operation_has_ended(comm):
    x = pycoll.full(50_000, 1.0)
    seen = weakref.ref(x)
    request = comm.isend(x, 1 - comm.rank)
    del request, x
    gc.collect()
    if comm.rank == 0:
        time.sleep(0.1)
        assert seen() is not None, "the buffer of an operation in flight was let go"
    comm.recv(np.zeros(50_000), 1 - comm.rank)
    comm.barrier()
    for _ in range(100):
        comm.ibarrier().wait()
    gc.collect()
    assert seen() is None


@ranks(2)
def test_await_leaves_the_loop_free(comm):
    async def ticks(until):
        count = 0
        while not until.done():
            await asyncio.sleep(0.01)
            count += 1
        return count

    async def main():
        if comm.rank == 1:
            time.sleep(0.6)
        request = comm.iallreduce(np.ones(3))
        waiting = asyncio.ensure_future(asyncio.wait_for(wait(request), 10))
        count = await ticks(waiting)
        assert (await waiting).tolist() == [2, 2, 2]
        assert comm.rank == 1 or count > 20
        results = await asyncio.gather(*(wait(comm.iallreduce(np.full(2, i))) for i in range(20)))
        assert [row.tolist() for row in results] == [[2 * i, 2 * i] for i in range(20)]

    async def wait(request):
        return await request

    asyncio.run(main())


@ranks(2)
def test_a_cancelled_await_stops_waiting(comm):
    async def main():
        request = comm.irecv(np.zeros(1), 1 - comm.rank, 5)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(wait(request), 0.3)
        return request

    async def wait(request):
        return await request

    begin = time.monotonic()
    request = asyncio.run(main())  # joins the threads of the loop
    assert time.monotonic() - begin < 3
    comm.barrier()
    comm.send(np.ones(1), 1 - comm.rank, 5)
    assert request.wait().source == 1 - comm.rank


@ranks(2)
def test_test_does_not_wait(comm, tmp_path):
    if comm.rank == 0:
        request = comm.irecv(out := np.zeros(2), 1)
        assert not request.test() and not request.done and "pending" in repr(request)
        (tmp_path / "go").touch()
        while not request.test():
            time.sleep(0.001)
        assert out.tolist() == [4, 5]
    else:
        while not (tmp_path / "go").exists():
            time.sleep(0.005)
        comm.send(np.array([4.0, 5.0]), 0)
