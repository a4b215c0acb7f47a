"""The sum of all ranks' arrays, on every rank: pycoll run -n 4 docs/examples/allreduce.py"""

import numpy as np

import pycoll

comm = pycoll.init()
x = np.full(3, comm.rank + 1.0)
print(comm.rank, comm.allreduce(x))
