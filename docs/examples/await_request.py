"""Requests can be awaited: the event loop goes on meanwhile.

    pycoll run -n 4 docs/examples/await_request.py

Each rank prints: rank {rank}: {size}, and the event loop was free
"""

import asyncio

import numpy as np

import pycoll


async def main() -> None:
    comm = pycoll.init()
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.001)

    ticking = asyncio.create_task(tick())
    if comm.rank == comm.size - 1:
        await asyncio.sleep(0.1)  # the others wait for this one
    total = await comm.iallreduce(np.ones(1))
    ticking.cancel()
    free = comm.size == 1 or ticks > 5
    print(f"rank {comm.rank}: {total[0]:.0f}, and the event loop was {'free' if free else 'blocked'}")


asyncio.run(main())
