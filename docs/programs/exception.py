"""A rank that ends with an exception while the others wait for it.

pycoll run -n 3 docs/programs/exception.py
"""

import pycoll

comm = pycoll.init()
if comm.rank == 2:
    raise FileNotFoundError("no file named weights.npz")
try:
    comm.barrier()
except pycoll.RankFailedError as error:
    print(f"rank {comm.rank} caught {type(error).__name__}: {error}")
