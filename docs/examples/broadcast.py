"""One rank's array, copied into every rank's.

    pycoll run -n 4 docs/examples/broadcast.py

Each rank prints: rank {rank}: [0. 1. 4. 9.]
"""

import numpy as np

import pycoll

comm = pycoll.init()
x = np.arange(4.0) ** 2 if comm.rank == 0 else np.empty(4)
comm.broadcast(x, root=0)
print(f"rank {comm.rank}: {x}")
