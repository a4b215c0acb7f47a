"""Around the ring: each rank sends to its right-hand neighbour and receives from its left-hand one.

    pycoll run -n 4 docs/examples/send_recv.py

Each rank prints: rank {rank} got {10 * ((rank - 1) % size)} from rank {(rank - 1) % size}
"""

import numpy as np

import pycoll

comm = pycoll.init()
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
inbox = np.empty(1, dtype=int)
# Not send(): if all ranks waited in it for a receiver, nobody would ever receive.
sending = comm.isend(np.array([10 * comm.rank]), dest=right, tag=7)
status = comm.recv(inbox, source=left, tag=7)
sending.wait()
print(f"rank {comm.rank} got {inbox[0]} from rank {status.source}")
