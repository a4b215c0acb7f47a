"""Ranks whose calls do not match: one has another datatype.

pycoll run -n 3 docs/programs/mismatch.py
"""

import numpy as np

import pycoll

comm = pycoll.init()
x = np.ones(1000, np.float32 if comm.rank == 1 else np.float64)
try:
    comm.allreduce(x)
except pycoll.MismatchError as error:
    print(f"rank {comm.rank} caught {type(error).__name__}, about ranks {error.ranks}")
    if comm.rank == 0:
        print(f"rank 0 reads: {error}")
try:
    comm.barrier()
except pycoll.CommClosedError as error:
    if comm.rank == 0:
        print(f"rank 0 reads in its next call: {error}")
