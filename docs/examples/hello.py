"""The smallest program: who am I, and how many are we?

    pycoll run -n 4 docs/examples/hello.py

Each rank prints: hello from rank {rank} of {size}
"""

import pycoll

comm = pycoll.init()
print(f"hello from rank {comm.rank} of {comm.size}")
