"""What the page of the hybrid experiment says around its tables."""

INTRODUCTION = """\
The ten applications of *Estimating the WCET of GPU-Accelerated Applications Using Hybrid Analysis*
(ECRTS 2013) in the 25 variants of its Table II, written for this project
([kernels](../../benchmarks/kernels/hybrid/README.md)). Each is executed by the emulator on input
vectors of its own, what was executed is timed block by block, and the analysis of
`ptxwcet hybrid` gets the traces of all runs.

* **Machine here**: `orin-ecrts2025` (Ampere class, in order, memory latency 200, no caches, no
  contention of memory), 14 multiprocessors, warps scheduled by loose round robin, at most 1536
  threads resident on each. **There**: GPGPU-Sim as a Tesla C2050 (Fermi, 14 multiprocessors, caches
  and DRAM), kernels of a CUDA SDK compiled by nvcc 4.0, 1000 input vectors. Code, sizes and machine
  differ: cycles cannot be compared, only how far estimates lie above what was observed.
* **Input vectors**: six in ten random, the others sorted, reversed, constant, and with four
  different values. The refinement of the eigenvalues gets the intervals that the separation finds
  for its matrix.
* 19 kernels have paths that do not depend on data: the path analysis proves it, and on a machine
  without caches all inputs then make the same trace. Where a run takes long, such a kernel was
  stopped when ten runs, with all kinds of input, had made the same trace (column *inputs*).
* *Published* percentages are computed from the published cycles. As printed, two differ: Scan-1 has
  4,064 % where its cycles give 4,046 %, ScalarProduct 591 % for 591.7 %.
* *SAFE* is the static safe bound of one block that has a multiprocessor for itself, and *block
  alone* its longest run under five policies. It is no bound of the kernel, whose blocks share
  multiprocessors: no static bound of whole kernels is shown here.
"""

PARAMETERS = """\
*Jitter* is the release jitter of equation 1; Omega (waves), phi (warps a wave) and Delta (start
gap) are derived from the traces as the paper does. *Planned*: from launch and occupancy instead,
with the gap of first waves, which the paper leaves for later. *Resident*: blocks that a
multiprocessor holds. *Transitions seen*: what was not seen is missing in the estimate.
"""

SHARES = """\
*Longest warp*: the longest time of one warp that was observed, which Z_warp over-estimates.
*Loops*, *barriers*: shares of Z_warp in the loop with the largest one, and in transitions that pass
a barrier. *Likely Z_warp*: what the path of Z_warp exceeds with probability 1e-6 if the times of
its transitions, distributed as observed, are independent, which the paper leaves for later too.
"""

DIFFERENCES = """\
"""

VARIATION = """\
"""
