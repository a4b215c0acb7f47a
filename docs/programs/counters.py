"""What a few calls have cost: the counters of a communicator.

pycoll run -n 4 docs/programs/counters.py
"""

import numpy as np

import pycoll

comm = pycoll.init()
by_chance = {"parks", "wakes", "unexpected", "shm_again"}  # depend on who comes first
for _ in range(10):
    comm.allreduce(np.ones(1))
    comm.allreduce(np.ones(100_000))
stats = comm.stats()
if comm.rank == 0:
    for name, value in stats.items():
        if value and not name.endswith("_seconds") and name not in by_chance:
            print(f"{name:28} {value}")
