#!/usr/bin/env bash
# Compiles what lies here with nvcc and ptxas, and lists it with nvdisasm (on the PATH). Run it after
# changing what lies here or the random programs of tests/oracle/integer_programs.py. nvcc writes the folder of the source: only the file name is kept.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
nvcc -ptx -arch=sm_75 -lineinfo control.cu -o "$work/control.ptx"
sed -i -E 's|^(\s*\.file\s+[0-9]+\s+")[^"]*/([^"/]+")|\1\2|' "$work/control.ptx"
ptxas -arch sm_86 -lineinfo "$work/control.ptx" -o control_86.cubin
for arch in 75 86 90; do
  sed -E 's/^\.target sm_86/.target sm_75/' ../../../samples/sgemm_naive.ptx >"$work/sgemm_naive.ptx"
  ptxas -arch "sm_$arch" $([ "$arch" != 86 ] || echo -lineinfo) "$work/sgemm_naive.ptx" -o "sgemm_naive_$arch.cubin"
done
for file in *.cubin; do
  python3 -c 'import sys; from ptxwcet.sass.reading import read_source; print(end=read_source(sys.argv[1]).text)' "$file" >"${file%.cubin}.sass"
done
# what is only executed (tests/oracle/test_machine_code_execution.py) is kept as listings alone
kept() { # file of PTX, architecture
  ptxas -arch "sm_$2" "$1" -o "$work/kept.cubin"
  python3 -c 'import sys; from ptxwcet.sass.reading import read_source; print(end=read_source(sys.argv[1]).text)' "$work/kept.cubin" >"$(basename "${1%_"$2".ptx}" .ptx)_$2.sass"
}
for pair in vector_add:90 mandelbrot:86 saxpy:80; do
  name=${pair%:*}
  sed -E 's/^\.target sm_86/.target sm_80/' "../../../samples/$name.ptx" >"$work/$name.ptx"
  kept "$work/$name.ptx" "${pair#*:}"
done
for arch in 86 90; do
  python3 ../../oracle/integer_programs.py "$arch" >"integers_$arch.ptx"
  kept "integers_$arch.ptx" "$arch"
done
kept minima_90.ptx 90
kept uniform.ptx 90
python3 ../../oracle/cubin_tables.py "$work/kept.cubin" >uniform_90.tables
kept literals.ptx 80
python3 ../../oracle/cubin_tables.py "$work/kept.cubin" >literals_80.tables
python3 ../../../benchmarks/translation_programs.py >random.ptx
for arch in 80 90; do
  kept random.ptx "$arch"
  python3 ../../oracle/cubin_tables.py "$work/kept.cubin" >"random_$arch.tables"
done
nvcc -ptx -arch=sm_75 -lineinfo meeting.cu -o "$work/meeting.ptx"
kept "$work/meeting.ptx" 86
nvcc -ptx -arch=sm_75 divisions.cu -o "$work/divisions.ptx"
for arch in 86 90; do kept "$work/divisions.ptx" "$arch"; done
nvcc -ptx -arch=sm_75 constants.cu -o "$work/constants.ptx"
nvcc -ptx -arch=sm_75 reduced.cu -o "$work/reduced.ptx"
kept "$work/reduced.ptx" 86
nvcc -ptx -arch=sm_75 partial.cu -o "$work/partial.ptx"
for arch in 86 90; do kept "$work/partial.ptx" "$arch"; done
for arch in 80 90; do kept forms.ptx "$arch"; done
for arch in 75 86 90; do kept specials.ptx "$arch"; kept "$work/constants.ptx" "$arch"; done
for file in control_86.cubin sgemm_naive_90.cubin; do
  python3 ../../oracle/life_ranges.py "$file" >"${file%.cubin}.ranges"
done
nvcc -dc -cubin -arch=sm_86 -DCALLER linked.cu -o "$work/caller.o"
nvcc -dc -cubin -arch=sm_86 linked.cu -o "$work/callee.o"
nvlink -arch=sm_86 "$work/caller.o" "$work/callee.o" -o linked_86.cubin
python3 -c 'import sys; from ptxwcet.sass.reading import read_source; print(end=read_source(sys.argv[1]).text)' linked_86.cubin >linked_86.sass
