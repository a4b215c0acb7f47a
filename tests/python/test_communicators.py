"""Communicators: made by split and dup, closed by hand, by `with`, by the garbage collector, used by threads."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import random
import threading
import time

import numpy as np
import pytest
from ranks import ranks

import pycoll


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@ranks(1, 4)
def test_split_orders_by_key_and_leaves_out(comm):
    part = comm.split(comm.rank % 2, key=-comm.rank)
    members = [rank for rank in reversed(range(comm.size)) if rank % 2 == comm.rank % 2]
    assert part.size == len(members) and members[part.rank] == comm.rank
    assert part.allgather(np.int64(comm.rank)).tolist() == members
    some = comm.split(None if comm.rank == 0 else 3)
    assert (some is None) == (comm.rank == 0)
    if some:
        assert some.size == comm.size - 1 and some.rank == comm.rank - 1
    twin = comm.dup()
    assert (twin.rank, twin.size) == (comm.rank, comm.size)
    assert twin.allreduce(np.ones(1)) == comm.size


@ranks(2)
def test_messages_of_two_communicators_do_not_mix(comm):
    twin = comm.dup()
    x, y = np.zeros(1), np.zeros(1)
    requests = [twin.irecv(y, 1 - comm.rank, 0), comm.irecv(x, 1 - comm.rank, 0)]
    comm.send(np.array([1.0]), 1 - comm.rank, 0)
    twin.send(np.array([2.0]), 1 - comm.rank, 0)
    pycoll.wait_all(requests)
    assert (x, y) == (1, 2)


@ranks(2)
def test_use_after_close(comm):
    with comm.dup() as part:
        part.barrier()
        request = part.irecv(np.zeros(1), 1 - comm.rank)
    assert part.closed and "closed" in repr(part)
    x = np.zeros(2)
    for call in (
        lambda: part.barrier(),
        lambda: part.barrier(timeout=1),
        lambda: part.allreduce(x),
        lambda: part.iallreduce(x),
        lambda: part.allreduce_init(x),
        lambda: part.allreduce([1]),
        lambda: part.broadcast(x),
        lambda: part.reduce(x),
        lambda: part.allgather(x),
        lambda: part.send(x, 0),
        lambda: part.recv(x),
        lambda: part.split(0),
        lambda: part.dup(),
        lambda: part.node,
        lambda: part.local_rank,
        lambda: part.stats(),
        lambda: part.__enter__(),
        lambda: request.wait(),
    ):
        with pytest.raises(pycoll.CommClosedError):
            call()
    part.close()
    assert part.rank == comm.rank and part.size == comm.size
    for wrong in (copy.copy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            wrong(comm)
    comm.barrier()


@ranks(2)
def test_use_after_finalize(comm):
    part = comm.dup()
    request = part.irecv(np.zeros(1), 1 - comm.rank)
    p = part.allreduce_init(np.ones(2))
    p()
    pycoll.finalize()
    pycoll.finalize()
    for call in (comm.barrier, part.barrier, request.wait, p, lambda: comm.size and comm.stats()):
        with pytest.raises(pycoll.CollError):
            call()
    with pytest.raises(pycoll.CollError, match=r"init\(\)"):
        pycoll.world()
    comm.close()
    part.close()


@ranks(3)
def test_split_and_close_many_times(comm):
    """Odd and even groups make different numbers of calls; some are dropped in another order on every rank."""
    order = random.Random(comm.rank)
    kept = []
    for turn in range(300):
        part = comm.split(comm.rank % 2, key=comm.rank)
        for _ in range(1 + comm.rank % 2):
            assert part.allreduce(np.ones(3)).tolist() == [part.size] * 3
        if turn % 3:
            part.close()
        else:
            kept.append(part)
        del part
        if len(kept) > 5:
            kept.pop(order.randrange(len(kept)))
        if turn == 50:
            files, memory = open_files(), resident()
    del kept
    gc.collect()
    comm.barrier()
    assert open_files() <= files
    assert resident() - memory < 20 << 20


@ranks(2)
def test_threads_on_two_communicators_in_opposite_order(comm):
    first, second = comm.dup(), comm.dup()
    gaps = []
    stop = threading.Event()

    def tick():
        last = time.monotonic()
        while not stop.is_set():
            time.sleep(0.005)
            now = time.monotonic()
            gaps.append(now - last)
            last = now

    def work(part, delay):
        time.sleep(delay)
        for turn in range(50):
            results.append(part.allreduce(np.full(10, turn + 0.0))[0] == 2 * turn)

    results = []
    ticker = threading.Thread(target=tick)
    ticker.start()
    pair = (first, second) if comm.rank == 0 else (second, first)
    threads = [threading.Thread(target=work, args=(part, 0.4 * number)) for number, part in enumerate(pair)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    ticker.join()
    assert results == [True] * 100
    assert sorted(gaps)[len(gaps) // 2] < 0.05, "the interpreter was blocked during waits"


@ranks(2)
def test_one_communicator_from_two_threads(comm):
    """Serialised: both threads make the same calls, and each gets a right result."""
    wrong = []

    def work():
        for _ in range(100):
            if comm.allreduce(np.ones(4)).tolist() != [2.0] * 4:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@ranks(2)
def test_a_call_while_another_thread_waits_on_the_communicator(comm):
    """A receive that waits in one thread is ended by a message that another thread makes possible."""
    out = np.zeros(1)

    def receive():
        comm.recv(out, 1 - comm.rank, 1)

    thread = threading.Thread(target=receive)
    thread.start()
    time.sleep(1)  # longer than a blocking call goes without looking at signals
    if comm.rank == 0:
        comm.recv(np.zeros(1), 1, 2)
        comm.send(np.ones(1), 1, 1)
    else:
        time.sleep(0.6)
        comm.send(np.ones(1), 0, 2)
        comm.send(np.ones(1), 0, 1)
    thread.join(10)
    assert not thread.is_alive() and out[0] == 1
    other = threading.Thread(target=comm.barrier)
    if comm.rank == 0:
        other.start()
        time.sleep(0.8)
        comm.allreduce(np.ones(2))
        other.join()
    else:
        time.sleep(1.5)
        comm.barrier()
        comm.allreduce(np.ones(2))
