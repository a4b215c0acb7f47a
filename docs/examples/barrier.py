"""Nobody passes a barrier before all have reached it.

    pycoll run -n 4 docs/examples/barrier.py

Each rank prints: rank {rank} waited for the last, {0.1 * (size - 1):.1f} s after the start
"""

import time

import pycoll

comm = pycoll.init()
comm.barrier()
begin = time.perf_counter()
time.sleep(0.1 * comm.rank)  # the last rank comes latest
comm.barrier()
elapsed = time.perf_counter() - begin
last = 0.1 * (comm.size - 1)
assert elapsed > last - 0.05
print(f"rank {comm.rank} waited for the last, {last:.1f} s after the start")
