"""An argument that is wrong on one rank only: the others do not wait for it, and the next call works.

pycoll run -n 3 docs/programs/argument.py
"""

import numpy as np

import pycoll

comm = pycoll.init()
try:
    comm.allreduce(np.ones(3), op="plus" if comm.rank == 1 else "sum")
except pycoll.CollError as error:
    print(f"rank {comm.rank} caught {type(error).__name__}: {error}")
total = comm.allreduce(np.ones(3))
print(f"rank {comm.rank} goes on: {total}")
