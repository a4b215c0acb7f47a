"""A rank whose process dies in the middle of the work.

pycoll run -n 3 docs/programs/death.py
"""

import os
import signal

import numpy as np

import pycoll

comm = pycoll.init()
comm.barrier()
if comm.rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    comm.allreduce(np.ones(4))
except pycoll.RankFailedError as error:
    print(f"rank {comm.rank} caught {type(error).__name__}: {error}")
