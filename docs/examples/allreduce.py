"""The sum of all ranks' arrays, on every rank.

    pycoll run -n 4 docs/examples/allreduce.py

Each rank prints: {rank} [{size * (size + 1) / 2:.0f}. {size * (size + 1) / 2:.0f}. {size * (size + 1) / 2:.0f}.]
"""

import numpy as np

import pycoll

comm = pycoll.init()
x = np.full(3, comm.rank + 1.0)
print(comm.rank, comm.allreduce(x))
