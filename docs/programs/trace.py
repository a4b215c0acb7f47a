"""A line for each finished operation: COLL_TRACE.

pycoll run -n 2 docs/programs/trace.py
"""

import os
import tempfile

import numpy as np

import pycoll

folder = tempfile.TemporaryDirectory()
os.environ["COLL_TRACE"] = f"{folder.name}/trace.%r"
comm = pycoll.init()
rank = comm.rank
comm.barrier()
comm.allreduce(np.ones(1000))
comm.broadcast(np.zeros(3, np.int32), root=1)
pycoll.finalize()
if rank == 0:
    with open(f"{folder.name}/trace.0") as file:
        print(file.read(), end="")
