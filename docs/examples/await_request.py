"""Requests can be awaited: the event loop goes on meanwhile.

    pycoll run -n 4 docs/examples/await_request.py

Each rank prints: rank {rank}: {size}
"""

import asyncio

import numpy as np

import pycoll


async def main() -> None:
    comm = pycoll.init()
    last = comm.size - 1

    async def add() -> np.ndarray:
        return await comm.iallreduce(np.ones(1))

    async def knock() -> None:
        await comm.isend(np.zeros(1), dest=last)

    if comm.rank == last:
        # Joins when all others have knocked, and they do so while they wait for this rank in add().
        for source in range(last):
            await comm.irecv(np.empty(1), source)
        total = await add()
    else:
        total, _ = await asyncio.gather(add(), knock())
    print(f"rank {comm.rank}: {total[0]:.0f}")


asyncio.run(main())
