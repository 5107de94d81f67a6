#!/bin/sh
# Makes the binaries that measure.py loads: nvcc of CUDA 13, for sm_90a. sh build.sh FOLDER
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tests=$here/../../../tests/data
mkdir -p "$1"
to=$(cd "$1" && pwd)
python3 "$here/products.py" > "$to/products.inc"
nvcc -O3 -arch=sm_90a -cubin --diag-suppress 550 -I "$to" -o "$to/engines.cubin" "$here/engines.cu"
timed() {
  python3 "$here/timed.py" "$1" "$to/timed.ptx"
  ptxas -arch=sm_90a "$to/timed.ptx" -o "$to/$2.cubin"
}
timed "$tests/mbarriers/mbarriers.ptx" mbarriers
timed "$tests/engines/engines.ptx" engines_of_tests
ptxas -arch=sm_90a "$tests/engines/engines.ptx" -o "$to/engines_plain.cubin"
for name in matmul_90 matmul_8_warps_90 matmul_of_boxes_90; do
  timed "$here/../../triton_kernels/$name.ptx" $name
done
rm "$to/timed.ptx" "$to/products.inc"
