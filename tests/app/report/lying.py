"""The trials of a device where one way lies, one hangs and one ends its process."""

import sys

from engine.backends.opencl.drivers import trials

ACT = """
import os, sys, time
way = sys.argv[2]
if way == "NVIDIA": print("gives wrong sums (4 of 1024)")
elif way == "AMD": time.sleep(60)
elif way == "RDNA3": os.abort()
else: print("")
"""

if __name__ == "__main__":
    trials.ATTEMPT = (sys.executable, "-c", ACT)
    trials.TIMEOUT = 2.0
    trials.MATRIX = ()
    trials.main(sys.argv[1])
