"""Measures an MPI library through mpi4py. Usage: worker_mpi4py.py SOCKET, on every rank."""

import sys
from functools import partial

import numpy as np
from measuring import NotOffered, serve
from mpi4py import MPI

comm = MPI.COMM_WORLD

ORDINARY = {
    "barrier": lambda x, out: partial(comm.Barrier),
    "broadcast": lambda x, out: partial(comm.Bcast, x, 0),
    "reduce": lambda x, out: partial(comm.Reduce, x, out, MPI.SUM, 0),
    "allreduce": lambda x, out: partial(comm.Allreduce, x, out, MPI.SUM),
    "allgather": lambda x, out: partial(comm.Allgather, x, out),
}
PERSISTENT = {
    "barrier": lambda x, out: comm.Barrier_init(),
    "broadcast": lambda x, out: comm.Bcast_init(x, 0),
    "reduce": lambda x, out: comm.Reduce_init(x, out, MPI.SUM, 0),
    "allreduce": lambda x, out: comm.Allreduce_init(x, out, MPI.SUM),
    "allgather": lambda x, out: comm.Allgather_init(x, out),
}


class Mpi:
    rank, size = comm.rank, comm.size
    version = " ".join(MPI.Get_library_version().split("\n")[0].split(",")[0].strip("\0").split())
    barrier = staticmethod(comm.Barrier)
    request = MPI.REQUEST_NULL

    def array(self, count, mode):
        return np.empty(count)

    def prepare(self, operation, mode, x, out):
        if self.request != MPI.REQUEST_NULL:
            self.request.Free()
        result = x if operation == "broadcast" else out
        if mode == "ordinary" and operation in ORDINARY:
            return ORDINARY[operation](x, out), result
        if mode == "persistent" and operation in PERSISTENT:
            try:
                self.request = PERSISTENT[operation](x, out)
            except (NotImplementedError, AttributeError) as reason:
                raise NotOffered(str(reason)) from None
            return partial(run, self.request.Start, self.request.Wait), result
        raise NotOffered(f"{operation}, {mode}")


def run(start, wait):
    start()
    wait()


serve(Mpi(), sys.argv[1])
