"""Communication that goes on while the program computes.

    pycoll run -n 4 docs/examples/nonblocking.py

Each rank prints: rank {rank}: sum {size * 1000}, largest {size - 1}, and computed 499500 meanwhile
"""

import numpy as np

import pycoll

comm = pycoll.init()
ones = np.ones(1000)
first = comm.iallreduce(ones)
second = comm.iallreduce(np.array([comm.rank]), op="max")
meanwhile = sum(range(1000))  # `ones` must not be changed before its request is done
total, largest = pycoll.wait_all([first, second])
print(f"rank {comm.rank}: sum {total.sum():.0f}, largest {largest[0]}, and computed {meanwhile} meanwhile")
