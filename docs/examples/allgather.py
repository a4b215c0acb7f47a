"""Every rank's array, on every rank: one row for each.

    pycoll run -n 4 docs/examples/allgather.py

Each rank prints: rank {rank}: {[[r, r * r] for r in range(size)]}
"""

import numpy as np

import pycoll

comm = pycoll.init()
rows = comm.allgather(np.array([comm.rank, comm.rank**2]))
print(f"rank {comm.rank}: {rows.tolist()}")
