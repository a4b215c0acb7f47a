"""Ranks that disagree get an error, all of them, that shows both calls. Nobody hangs and no memory is overrun.

    pycoll run -n 4 docs/examples/errors_mismatch.py

Each rank prints: rank {rank}: {"float32 and float64 do not match" if size > 1 else "alone, nothing to disagree about"}
"""

import numpy as np

import pycoll

comm = pycoll.init()
dtype = np.float32 if comm.rank == 0 else np.float64
try:
    comm.allreduce(np.ones(1000, dtype))
    print(f"rank {comm.rank}: alone, nothing to disagree about")
except pycoll.MismatchError as error:
    assert "float32" in str(error) and "float64" in str(error), error
    print(f"rank {comm.rank}: float32 and float64 do not match")
