"""A rank that ends the whole job on purpose.

pycoll run -n 3 docs/programs/abort.py
"""

import pycoll

comm = pycoll.init()
if comm.rank == 1:
    comm.abort("the loss is not a number", code=3)
try:
    comm.barrier()
except pycoll.PeerError as error:
    print(f"rank {comm.rank} caught {type(error).__name__}: {error}")
