"""Groups of ranks: the even and the odd ones add up apart.

    pycoll run -n 4 docs/examples/split.py

Each rank prints: rank {rank} is number {rank // 2} of a group that adds up to {sum(range(rank % 2, size, 2))}
"""

import numpy as np

import pycoll

comm = pycoll.init()
with comm.split(color=comm.rank % 2, key=comm.rank) as group:
    total = group.allreduce(np.array([comm.rank]))[0]
    print(f"rank {comm.rank} is number {group.rank} of a group that adds up to {total}")
