"""A message that is longer than the array that is to receive it.

pycoll run -n 2 docs/programs/truncate.py
"""

import numpy as np

import pycoll

comm = pycoll.init()
if comm.rank == 0:
    comm.send(np.arange(4.0), dest=1)
else:
    try:
        comm.recv(np.empty(2), source=0)
    except pycoll.TruncateError as error:
        print(f"rank {comm.rank} caught {type(error).__name__}: {error}")
comm.barrier()  # the communicator still works
