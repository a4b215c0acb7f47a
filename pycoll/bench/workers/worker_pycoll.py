"""Measures pycoll itself. Usage: worker_pycoll.py SOCKET, on every rank."""

import sys
from functools import partial

import numpy as np
from breaking_down import measure_parts
from measuring import NotOffered, serve

import pycoll

comm = pycoll.init()

CALLS = {
    "barrier": lambda x, out: partial(comm.barrier),
    "broadcast": lambda x, out: partial(comm.broadcast, x, 0),
    "reduce": lambda x, out: partial(comm.reduce, x, out, "sum", 0),
    "allreduce": lambda x, out: partial(comm.allreduce, x, out),
    "allgather": lambda x, out: partial(comm.allgather, x, out),
}
PERSISTENT = {
    "barrier": lambda x, out: comm.barrier_init(),
    "broadcast": lambda x, out: comm.broadcast_init(x, 0),
    "reduce": lambda x, out: comm.reduce_init(x, out, "sum", 0),
    "allreduce": lambda x, out: comm.allreduce_init(x, out),
    "allgather": lambda x, out: comm.allgather_init(x, out),
}


class Pycoll:
    rank, size = comm.rank, comm.size
    version = f"pycoll {pycoll.__version__}"
    barrier = staticmethod(comm.barrier)

    def array(self, count, mode):
        return pycoll.empty(count) if mode == "symmetric" else np.empty(count)

    def prepare(self, operation, mode, x, out):
        calls = PERSISTENT if mode == "persistent" else CALLS
        if operation not in calls or (mode == "symmetric" and operation == "barrier"):
            raise NotOffered(f"{operation}, {mode}")
        return calls[operation](x, out), x if operation == "broadcast" else out


serve(Pycoll(), sys.argv[1], measure_parts=measure_parts)
