"""One call's life, and the process around it.

Importing this package first settles how the numeric runtimes use threads, since they read that when
they are imported themselves: idle threads sleep instead of spinning, and numpy's own matrix products
stay on one thread. On two cores that halved the CPU time of recognition.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
