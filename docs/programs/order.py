"""The order of additions shows in the last bits of a sum.

pycoll run -n 4 --env COLL_TUNE=allreduce:ring docs/programs/order.py
pycoll run -n 4 --env COLL_TUNE=allreduce:recursive_doubling docs/programs/order.py
pycoll run -n 4 --env COLL_DETERMINISTIC=1 docs/programs/order.py
"""

import numpy as np

import pycoll

comm = pycoll.init()
x = np.random.default_rng(comm.rank).random(1000) - 0.5
total = comm.allreduce(x)
everyone = comm.allgather(x)
in_rank_order = everyone[0].copy()
for row in everyone[1:]:
    in_rank_order += row
if comm.rank == 0:
    used = next(name for name in comm.stats()["algorithms"] if name.startswith("allreduce"))
    print(f"{used}: {(total != in_rank_order).sum()} of 1000 sums differ from those in rank order")
