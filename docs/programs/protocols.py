"""Which messages go out at once (eager), and which wait for their receiver (rendezvous).

pycoll run -n 2 docs/programs/protocols.py
"""

import numpy as np

import pycoll

comm = pycoll.init()
for nbytes in (8, 8 * 1024, 8 * 1024 + 1, 1024 * 1024):
    before = comm.stats()
    if comm.rank == 0:
        comm.send(np.zeros(nbytes, np.uint8), dest=1)
    else:
        comm.recv(np.empty(nbytes, np.uint8), source=0)
    after = comm.stats()
    if comm.rank == 0:
        counts = {name: after[name] - before[name] for name in ("eager", "rendezvous")}
        print(f"{nbytes:8} bytes: {counts}")
    comm.barrier()
