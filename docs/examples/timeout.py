"""A rank that does not come: the others give up after the time they were told, and say for whom they waited.

    pycoll run -n 4 docs/examples/timeout.py

Rank 0 prints: {"sum 1, alone" if size == 1 else f"gave up on rank {size - 1}"}
"""

import time

import numpy as np

import pycoll

comm = pycoll.init()
last = comm.size - 1
comm.barrier()
if comm.rank == last and comm.size > 1:
    time.sleep(4)
try:
    total = comm.allreduce(np.ones(1), timeout=1.5)
    if comm.size == 1:
        print(f"sum {total[0]:.0f}, alone")
except pycoll.CollTimeoutError as error:
    if comm.rank == 0:
        print(f"gave up on rank {' '.join(map(str, error.ranks))}")
except pycoll.CollError:
    assert comm.rank == last  # too late: the others have given the communicator up
