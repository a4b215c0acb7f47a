"""Nobody leaves a barrier before all have come.

    pycoll run -n 4 docs/examples/barrier.py

Each rank prints: rank {rank} left after the last of {size} had come
"""

import time

import numpy as np

import pycoll

comm = pycoll.init()
time.sleep(0.1 * comm.rank)  # the last rank comes latest
came = time.monotonic()
comm.barrier()
left = time.monotonic()

times = comm.allgather(np.array([came, left]))  # of one machine, whose clock all ranks share
assert times[:, 0].max() <= times[:, 1].min()
print(f"rank {comm.rank} left after the last of {comm.size} had come")
