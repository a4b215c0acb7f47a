"""The same operation on the same arrays many times, prepared once.

    pycoll run -n 4 docs/examples/persistent.py

Each rank prints: rank {rank}: {sum(step * size for step in range(100))}
"""

import numpy as np

import pycoll

comm = pycoll.init()
x, y = np.empty(8), np.empty(8)
add = comm.allreduce_init(x, out=y)
total = 0.0
for step in range(100):
    x[:] = step
    total += add()[0]  # runs it, and gives y
print(f"rank {comm.rank}: {total:.0f}")
