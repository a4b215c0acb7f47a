"""Measures torch.distributed with Gloo. Usage: worker_gloo.py SOCKET, on every rank."""

import sys
from functools import partial

import numpy as np
import torch
import torch.distributed as dist
from measuring import NotOffered, serve

CALLS = {
    "barrier": lambda x, out: partial(dist.barrier),
    "broadcast": lambda x, out: partial(dist.broadcast, x, 0),
    "reduce": lambda x, out: partial(dist.reduce, x, 0),
    "allreduce": lambda x, out: partial(dist.all_reduce, x),
    "allgather": lambda x, out: partial(dist.all_gather_into_tensor, out, x),
}


class Gloo:
    def __init__(self):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.version = f"Gloo of torch {torch.__version__}"

    barrier = staticmethod(dist.barrier)

    def array(self, count, mode):
        return np.empty(count)

    def prepare(self, operation, mode, x, out):
        if mode != "ordinary" or operation not in CALLS:
            raise NotOffered(f"{operation}, {mode}")
        # Reductions are in place there; the tensors share the arrays' memory.
        result = out if operation == "allgather" else x
        return CALLS[operation](torch.from_numpy(x), torch.from_numpy(out)), result


torch.set_num_threads(1)
dist.init_process_group("gloo")
serve(Gloo(), sys.argv[1])
dist.destroy_process_group()
