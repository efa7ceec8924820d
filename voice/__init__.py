"""One call's life, and the process around it.

Importing this package first settles how the numeric runtimes use threads, since they read that when
they are imported themselves: idle threads sleep instead of spinning, and numpy's own matrix products
stay on one thread. On two cores that halved the CPU time of recognition. The heap is kept in few
pieces, too, before there are threads.
"""

import os

from budget.heap import few_arenas

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
few_arenas(2)
