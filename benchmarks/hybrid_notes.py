"""What the page of the hybrid experiment says around its tables."""

INTRODUCTION = """\
The ten applications of *Estimating the WCET of GPU-Accelerated Applications Using Hybrid Analysis*
(ECRTS 2013) in the 25 variants of its Table II, written for this project
(`benchmarks/kernels/hybrid`). Each is executed by the emulator on input
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
* 19 kernels have paths that do not depend on data: path analysis knows the one path of each warp,
  and on a machine without caches all inputs then make the same trace. At least ten inputs, of all
  kinds, are executed; for the others the path of the analysis is timed, and the traces are equal to
  the byte (column *traces*: how many differ). The other six kernels are executed on every input.
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
* **Z_hybrid of kernels in several waves** is far above the mark in both tables. A wave is counted
  whenever a start follows an end, so nearly whenever a block leaves: the four transposes have 82 to
  92 waves where launch and occupancy give 13 (published: 26 and 10). With the waves of the launch
  the same equation stays above every mark, at 21 to 130 % for these kernels in place of 396 to
  1,098 %: Omega makes most of the over-estimation. Delta is 1 or 2 for most kernels here, because
  round robin lets new warps issue at once; it was up to 1681 cycles there.
* **Z_dynamic of kernels in many waves** is within 7 % for six kernels (transposes, BitonicSort-2,
  Scan-3), since nearly all of it is release jitter, which is measured. It is far off where there
  are only two waves: BitonicSort-1 (69 %, published 14 %), BitonicSort-3 (38 %, 12 %) and
  ScalarProduct have 96 to 128 blocks on 84 places, and the pessimism of Z_warp counts more.
* **Loops with barriers**: Reduction-1 to -4, Histogram-1, Scan-2 and EigenValues-2 and -3 lie
  highest among the kernels of one wave, as published and for the published reason: every iteration
  is charged the longest wait that was seen. In a tree of sums the first iterations keep all warps
  busy and the last only one; Scan-2 (107 %, published 49 %) goes up a tree and down again. As
  there, Z_warp of Reduction-2 is above that of Reduction-1 although fewer of its warps fall apart.
* **Histogram-1 (76 %, published 603 %), ScalarProduct (75 %, 592 %)** and the reductions are nearer
  to the mark here. Without caches an access takes the same time in every iteration, and only queues
  behind other warps vary. Loops are shorter, too: Histogram-1 merges 1,024 partial histograms in
  four iterations.
* **EigenValues-2 (271 %, published 131 %)**: a round takes as long as it has intervals to split,
  which grow from 1 to 160; all rounds are charged like the longest. So with EigenValues-3 (238 %,
  published 299 %), where fewer and fewer threads go on. EigenValues-1 has no barrier in its loops
  (47 %, published 145 %); its warps compete for one divider.
* **BlackScholes (2 %, published 36 and 170 %)**: one path without barriers, and no memory system
  that could make one iteration slower than another.
* **MatrixTranspose-1 is faster than -2 and -3 here** (published: 2.4 times slower). The machine
  charges an access the same whatever addresses its lanes have, so tiles and padding cost
  instructions and save nothing. It is no machine on which to choose a transpose.
* **Histogram-2 (28 %, published 4 %; 396 %, 136 %)**: one block is a third of the run here, in 4
  waves of long blocks. **Scan-3** waits at a barrier for the warp that reads the total, behind 47
  others.
* **The safe bound below the estimates**: a launch of one block is bounded by SAFE as it is. For
  EigenValues-2, SAFE is 1,040,198 cycles, less than Z_dynamic and Z_hybrid (1,194,114), although it
  holds for all inputs: each wait is bounded by what the other warps execute, not by the longest
  wait of any iteration. In EigenValues-1 both are alike (445,431 and 433,016). The blocks of
  EigenValues-3 are bounded for intervals as wide as the launch file's, which take more rounds than
  those of the experiment; *block alone* is such a run, above the mark.
* **Likely Z_warp**: with independent transitions, 1e-6 lies close to the longest warp that was seen
  (within 1 % for BitonicSort-1 and -3, EigenValues-1), far below Z_warp. Times of transitions are
  not independent, and this is no bound; it shows how unlikely the path of Z_warp is.
"""

VARIATION = """\
Four quick kernels again, 100 runs each, with every initiation and latency shortened at random by up
to half, as caches and contention would vary them. High-water marks fall, since nothing is longer
than before, but the worst times of transitions still come together in Z_warp, so that estimates lie
further above (not that of VectorAdd, which has no loop). The picture shows how soon the high-water
mark is found: on the left by inputs alone, for the kernels whose paths depend on data, on the right
by latencies.
"""
