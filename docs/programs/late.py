"""A rank that does not come in time.

pycoll run -n 3 docs/programs/late.py
"""

import time

import numpy as np

import pycoll

comm = pycoll.init()
if comm.rank == 2:
    time.sleep(1.5)
try:
    comm.allreduce(np.ones(4), timeout=0.5)
except pycoll.CollTimeoutError as error:
    print(f"rank {comm.rank} caught {type(error).__name__}: {error}")
