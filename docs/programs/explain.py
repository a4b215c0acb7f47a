"""What would run for a call, and why.

pycoll run -n 4 docs/programs/explain.py
"""

import pycoll

comm = pycoll.init()
if comm.rank == 0:
    for nbytes in (8, 1 << 20):
        print(comm.explain("allreduce", nbytes))
        print()
