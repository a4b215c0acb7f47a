"""The largest of all ranks' numbers, element by element, on one rank.

    pycoll run -n 4 docs/examples/reduce.py

Rank 0 prints: the largest: [{size - 1} 0], from {size} ranks
"""

import numpy as np

import pycoll

comm = pycoll.init()
largest = comm.reduce(np.array([comm.rank, -comm.rank]), op="max", root=0)
if comm.rank == 0:
    print(f"the largest: {largest}, from {comm.size} ranks")
else:
    assert largest is None
