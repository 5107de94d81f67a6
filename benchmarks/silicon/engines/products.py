"""Writes products.inc: kernels with 1, 4 and 16 products of warpgroups, of each kind and size."""

KINDS = {
    "f16": ("k16.f32.f16.f16", True, (8, 16, 32, 64, 96, 128, 192, 256)),
    "bf16": ("k16.f32.bf16.bf16", True, (64, 256)),
    "tf32": ("k8.f32.tf32.tf32", False, (8, 64, 128, 256)),
    "e4m3": ("k32.f32.e4m3.e4m3", False, (8, 64, 128, 256)),
    "s8": ("k32.s32.s8.s8", False, (8, 64, 128, 256)),
}
"""Of each kind: its types, whether factors may be transposed, and sizes n."""


def multiply(kind: str, n: int, registers: bool, transposed: bool) -> str:
    """A function that multiplies once."""
    types, halves, _ = KINDS[kind]
    count = n // 2
    letter, ctype = ("r", "int") if kind == "s8" else ("f", "float")
    outputs = ", ".join(f"%{i}" for i in range(count))
    first = (
        "{" + ", ".join(f"%{count + 1 + i}" for i in range(4)) + "}"
        if registers
        else f"%{count + 1}"
    )
    tail = "1" if kind == "s8" else "1, 1, 1"
    if halves:
        tail += f", {int(transposed)}" if registers else f", {int(transposed)}, {int(transposed)}"
    operands = ", ".join(f'"+{letter}"(d[{i}])' for i in range(count))
    factor = ", ".join(f'"r"(x[{i}])' for i in range(4)) if registers else '"l"(a)'
    name = f"multiply_{kind}_{n}_{'rs' if registers else 'ss'}{'_t' if transposed else ''}"
    parameter = "const u32 (&x)[4]" if registers else "u64 a"
    return (
        f"__device__ __forceinline__ void {name}({ctype} (&d)[{count}], {parameter}, u64 b) {{\n"
        f'  asm volatile("wgmma.mma_async.sync.aligned.m64n{n}{types} {{{outputs}}}, "\n'
        f'               "{first}, %{count}, {tail};"\n'
        f'               : {operands}\n               : "l"(b), {factor});\n}}\n'
    )


def kernels(kind: str, n: int, registers: bool, transposed: bool) -> str:
    count = n // 2
    suffix = f"{kind}_{n}_{'rs' if registers else 'ss'}{'_t' if transposed else ''}"
    ctype = "int" if kind == "s8" else "float"
    factor = "regs" if registers else "from_a"
    text = multiply(kind, n, registers, transposed)
    for times in (1, 4, 16):
        text += (
            f"BENCH(wg_{suffix}_{times}) {{\n  {ctype} acc[{count}];\n"
            f"  for (int i = 0; i < {count}; ++i) acc[i] = 0;\n"
            + ("  u32 regs[4] = {0, 0, 0, 0};\n" if registers else "")
            + f"  PRODUCTS({times}, multiply_{suffix}(acc, {factor}, from_b))\n"
            f"  if (f == 7)\n    for (int i = 0; i < {count}; ++i)\n"
            f"      (({ctype} *)dst)[threadIdx.x] += acc[i];\n}}\n"
        )
    return text


def main() -> None:
    print("// Written by products.py.")
    for kind, (_, _halves, sizes) in KINDS.items():
        for n in sizes:
            for registers in (False, True):
                print(kernels(kind, n, registers, False))
    for n in (64, 128, 256):
        print(kernels("f16", n, False, True))
    print(multiply("f16", 16, False, False).replace("multiply_f16_16_ss", "multiply_of_two"))
    print("#define MULTIPLY_TWICE_FIRST(d) multiply_of_two(d, from_a, from_b);")
    # two accumulators in turn
    for n in (8, 64, 128):
        count = n // 2
        for times in (4, 16):
            print(
                f"BENCH(wg_turns_{n}_{times}) {{\n  float x[{count}], y[{count}];\n"
                f"  for (int i = 0; i < {count}; ++i) x[i] = y[i] = 0;\n"
                f"  PRODUCTS({times}, if (i % 2) multiply_f16_{n}_ss(y, from_a, from_b);"
                f" else multiply_f16_{n}_ss(x, from_a, from_b))\n"
                f"  if (f == 7)\n    for (int i = 0; i < {count}; ++i)\n"
                "      ((float *)dst)[threadIdx.x] += x[i] + y[i];\n}\n"
            )


if __name__ == "__main__":
    main()
