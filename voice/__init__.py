"""One call's life, and the process around it.

Importing this package first settles how the numeric runtimes use threads, since they read that when
they are imported themselves: idle threads spin for some microseconds only before they sleep, and numpy's
own matrix products stay on one thread. On two cores sleeping halved the CPU time of recognition; without any
spinning two threads of a small language model took 345 ms for what one did in 200 and, with a little of it, two
in 115. The heap is kept in few pieces, too, before there are threads.
"""

import os

from budget.heap import few_arenas

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
few_arenas(2)
