"""What each diagnostic code means, for ``ptxwcet explain`` and docs/diagnostics.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Explanation:
    """One code: a title, why it happens, what to do."""

    title: str
    cause: str
    remedy: str


def _table(*rows: tuple[str, str, str, str]) -> Mapping[str, Explanation]:
    return MappingProxyType(
        {code: Explanation(title, cause, remedy) for code, title, cause, remedy in rows}
    )


_COMPILER = "PTX from a compiler does not have this: check whether the file was edited or cut."
_NOT_TOML = (
    "A syntax error of TOML, or keys of more than 16 parts, numbers of more than 200 digits, "
    "brackets nested more than 64 deep."
)
_ARITY = "Compare with the instruction's syntax in the PTX ISA manual."

EXPLANATIONS: Mapping[str, Explanation] = _table(
    # --- syntax ---------------------------------------------------------------------------------
    (
        "PW101",
        "syntax error",
        "The text is not PTX at this place: a stray character, a lost comma, an operand that the "
        "instruction cannot have.",
        _COMPILER,
    ),
    (
        "PW102",
        "missing semicolon",
        "Every instruction and most directives end with ';' (not .version, .target, .loc, .file).",
        "End the statement with ';'.",
    ),
    (
        "PW103",
        "unknown directive",
        "The word after the dot is no directive of PTX ISA 9.x.",
        "Check its spelling; a newer ISA may need a newer ptxwcet.",
    ),
    (
        "PW104",
        "undeclared name",
        "A register, variable or function is used outside the braces that declare it.",
        "Declare it before use; names declared inside '{ }' end with the block.",
    ),
    (
        "PW105",
        "declared twice",
        "Two declarations in one block have the same name.",
        "Rename one, or open a block with '{ }' around the second.",
    ),
    (
        "PW106",
        "branch to nowhere",
        "The target of a branch is no label that is visible there; a branch into a block from "
        "outside is not legal.",
        "Check the label's spelling and its block.",
    ),
    (
        "PW107",
        "malformed literal",
        "Numbers are 12, 0x1F, 017, 0b101, 1U, 1.5, 0f3F800000 (8 digits), 0d (16 digits).",
        "Write the literal in one of these forms.",
    ),
    (
        "PW108",
        "wrong operand",
        "An operand's kind does not fit its place: a guard that is no predicate, a missing result, "
        "a register of another width than the type, a literal out of range.",
        _ARITY,
    ),
    (
        "PW109",
        "header missing or out of place",
        "A PTX file starts with .version and .target.",
        "Move both to the top of the file; a file without them is not PTX.",
    ),
    (
        "PW110",
        "unknown target",
        "The architecture of .target is none that PTX names.",
        "Compile for sm_75 or newer, for example nvcc -arch=sm_86.",
    ),
    (
        "PW111",
        "file ends inside a block",
        "A '{' is never closed: the file is probably cut off.",
        "Compile it again, or add the missing '}'.",
    ),
    (
        "PW112",
        "not a PTX text file",
        "The file is missing, empty, binary, over 64 MiB, or in another encoding than UTF-8.",
        "Give the text that 'nvcc -ptx kernel.cu' writes.",
    ),
    (
        "PW113",
        "no such instruction",
        "The opcode has no form with these types and modifiers: a word that PTX does not know, a "
        "type that the opcode does not take, a rounding or a direction that is missing.",
        _ARITY,
    ),
    (
        "PW116",
        "character outside ASCII",
        "ptxas refuses files with such a character, in comments too.",
        "Save the file as plain ASCII.",
    ),
    (
        "PW117",
        "blocks nested too deeply",
        "More '{' inside one another than any compiler writes.",
        "Check whether the file is PTX at all.",
    ),
    (
        "PW118",
        "malformed parameter list",
        "Parameters of an entry are .param; those of a function are .param or .reg.",
        _COMPILER,
    ),
    (
        "PW119",
        "no PTX in an object",
        "What was given to a function of the library is no path, no text of PTX, and no compiled "
        "kernel of Numba, Triton or CuPy that carries PTX.",
        "Give a path or PTX as text; call a kernel of Numba once, or give it a signature.",
    ),
    # --- flow -----------------------------------------------------------------------------------
    (
        "PW201",
        "irreducible loop",
        "A cycle can be entered at several blocks, so that it has no header and no loop bound.",
        "Avoid gotos into loops; compile with another optimisation level.",
    ),
    (
        "PW202",
        "undecided branch",
        "The launch facts do not decide which way the branch goes, and lanes that part there meet "
        "again only after the loop around: each part would run the rest of the loop alone.",
        "Give the parameters named (--param), or move the return or break out of the branch.",
    ),
    (
        "PW203",
        "loop without a bound",
        "How often the loop runs depends on data, or on a parameter without a value.",
        "Give what the help names, which is the cheapest that settles it: the grid, a parameter, "
        "or a bound you can answer for (--loop-bound '$L__BB0_2=64'); ptxwcet facts writes down "
        "all that is asked.",
    ),
    (
        "PW204",
        "loop without a closed form",
        "The counters are known but change irregularly, and the loop is too long to enumerate.",
        "Give a bound: --loop-bound LABEL=N.",
    ),
    (
        "PW205",
        "loop that never ends",
        "With these facts nothing that changes in the loop decides whether it goes on.",
        "Check the parameters: the kernel would hang.",
    ),
    (
        "PW206",
        "path too complex",
        "The path was not settled within the work limit, mostly because of nested irregular loops.",
        "Bound the inner loops with --loop-bound.",
    ),
    ("PW208", "no such kernel", "--kernel names no entry of the file.", "Use one of those listed."),
    (
        "PW209",
        "block size missing",
        "Neither --block nor .reqntid says how many threads a block has.",
        "Give --block, for example --block 32x8.",
    ),
    ("PW210", "malformed size", "A size is one to three positive numbers.", "Write 256 or 32x8x2."),
    (
        "PW211",
        "launch over a limit",
        "A block has at most 1024 threads (64 in z); a grid at most 2^31-1 x 65535 x 65535 blocks.",
        "Give a smaller size.",
    ),
    (
        "PW212",
        "launch against the kernel's directives",
        "The kernel declares .reqntid or .maxntid, and the block does not fit.",
        "Use the size required, or recompile the kernel with other launch bounds.",
    ),
    (
        "PW213",
        "no such parameter",
        "A parameter is named by index, PTX name, or CUDA name when the source is at hand.",
        "Use one of the names listed, or give --source.",
    ),
    (
        "PW214",
        "value does not fit",
        "The value is no number of the parameter's type, or the parameter is no scalar.",
        "Give a value within the type's range.",
    ),
    (
        "PW215",
        "given twice",
        "Two sources (options, launch file, facts file, comments of the PTX) disagree.",
        "Give one of them, or let both say the same.",
    ),
    (
        "PW216",
        "malformed loop bound",
        "A bound is PLACE=N: a label or a source line, and body executions for each entry.",
        "For example --loop-bound '$L__BB0_2=64'.",
    ),
    (
        "PW217",
        "contradictory loop bound",
        "The analysis proves more iterations than the bound allows, or the bound is 0 for a loop "
        "that runs at least once.",
        "Correct the bound or the launch facts.",
    ),
    (
        "PW218",
        "exits to different places",
        "The loop may be left in ways that go on differently; an iteration bound does not say "
        "which is taken.",
        "Give the parameters that decide the exits.",
    ),
    (
        "PW219",
        "loop bound without a loop",
        "The place of a loop bound is not exactly one loop.",
        "Name the label of the loop's first block.",
    ),
    (
        "PW220",
        "call on the path",
        "Functions are analysed in place of their calls, but not those without a body (printf, "
        "malloc), those called through a register, and those that call themselves.",
        "Let the compiler inline it (__forceinline__), or remove the call.",
    ),
    (
        "PW221",
        "indexed branch on the path",
        "brx.idx chooses among a table of targets; the choice is not followed yet.",
        "Write the switch as comparisons.",
    ),
    (
        "PW222",
        "barrier in divergent code",
        "Only some of the running threads of a warp reach the barrier.",
        "Move the barrier out of the divergent code.",
    ),
    (
        "PW223",
        "barrier of a part of the block",
        "The barrier does not wait for all warps of the block, or for how many is not a constant.",
        "Use __syncthreads().",
    ),
    (
        "PW224",
        "no reconvergence point",
        "No block lies on all paths from the divergent branch to the end.",
        "Make every path end.",
    ),
    (
        "PW230",
        "no path to the end",
        "From these blocks the kernel never ends.",
        "Check for loops without an exit.",
    ),
    ("PW231", "loops too deep", "More than 200 nested loops.", "Split the kernel."),
    ("PW232", "no such kernel to draw", "The file has no kernel of that name.", "See the list."),
    (
        "PW233",
        "cannot write a file",
        "Graphviz is missing or failed, or the file cannot be written; a facts file is not "
        "overwritten.",
        "Choose a place that can be written; for cfg, install Graphviz or write -o FILE.dot.",
    ),
    (
        "PW234",
        "too many divergent edges",
        "More than 200,000 branch-divergent edges: no one could look at them.",
        "Draw with --no-divergent.",
    ),
    (
        "PW240",
        "facts file unreadable",
        "The file cannot be read, or is not UTF-8 text.",
        "Check path and rights.",
    ),
    ("PW241", "facts file is not TOML", _NOT_TOML, "Correct it at that place."),
    (
        "PW242",
        "unknown key in a facts file",
        "Keys are checked: a misspelt one is not ignored.",
        "Use one of the keys listed; docs/flow-facts.md describes them.",
    ),
    (
        "PW243",
        "malformed fact",
        "An entry misses a key, or has a value of the wrong type.",
        "Write it as in the example of the message.",
    ),
    (
        "PW244",
        "facts for another PTX text",
        "A facts file names the SHA-256 of the PTX that it is about, and this is not its: labels "
        "move when a kernel is compiled anew.",
        "Check the facts against the PTX, then write the hash of the message.",
    ),
    (
        "PW245",
        "question left open",
        "A template was given before all its questions were answered.",
        'Write an answer for each "?".',
    ),
    (
        "PW246",
        "fact without a branch",
        "The place of a fact about a branch is not exactly one block that ends with a conditional "
        "branch, or a pair of exclusive outcomes is one outcome.",
        "Name the label of the block whose branch it is.",
    ),
    (
        "PW247",
        "too many exclusive outcomes",
        "Each pair of exclusive outcomes doubles the paths to extract; at most six are combined.",
        "Leave out those that matter least.",
    ),
    (
        "PW248",
        "comment not understood",
        "A comment of the PTX begins with ptxwcet: but states no fact.",
        'Write asm volatile("// ptxwcet: loop_bound 64"), or loop_total.',
    ),
    (
        "PW249",
        "comment bounds no loop",
        "It is in no loop of the PTX, or its loop cannot be told: the compiler has unrolled it "
        "completely, a way through the loop does not pass it, or two loops share a header.",
        "Move it, keep the compiler from unrolling (#pragma unroll 1), or use a facts file.",
    ),
    (
        "PW250",
        "fact without a call",
        "A fact about calls names a function that the kernel does not call, or not there; a "
        "compiler may have put the function in the place of its calls.",
        "Name a function with a body as the PTX does, or leave the place out.",
    ),
    (
        "PW251",
        "array fact without a load",
        "A range is stated of the integers in an array, and the kernel loads none of that type "
        "through its pointer, as far as can be told.",
        "State the type that the kernel loads, or leave the array out.",
    ),
    # --- machine --------------------------------------------------------------------------------
    ("PW301", "no such machine", "Neither a known name nor a file.", "See ptxwcet machine list."),
    ("PW302", "machine file unreadable", "The file cannot be read.", "Check path and rights."),
    ("PW303", "machine file is not TOML", "A syntax error of TOML.", "Correct it at that place."),
    (
        "PW304",
        "schema not supported",
        "A machine file states the schema it is written for.",
        "Write schema = 1, and check the file.",
    ),
    (
        "PW305",
        "unknown key",
        "Keys are checked: a misspelt one is not ignored.",
        "Use a known key.",
    ),
    (
        "PW306",
        "malformed entry",
        "An entry has the wrong type, misses a field, or has a negative or impossible number.",
        "Initiations are at least 1, latencies at least 0, in cycles.",
    ),
    ("PW307", "unknown op class", "The table names no such class.", "See docs/machine-files.md."),
    (
        "PW308",
        "missing op class",
        "Every op class needs a timing or an explicit refusal; nothing has a default.",
        'Add a row, or refuse = "reason".',
    ),
    ("PW309", "missing unit", "A row uses a unit that is not declared.", "Declare it in [units]."),
    (
        "PW310",
        "figure out of range",
        "An initiation below 1, a negative latency, a count below 1.",
        "Correct the figure.",
    ),
    ("PW311", "missing source", "A figure names no source of the table.", "Add the source."),
    (
        "PW312",
        "incomplete ledger",
        "Every assumption needs a state: by-definition, assumed or doubtful.",
        "Add the missing entry.",
    ),
    ("PW313", "bad inheritance", "extends works one level deep.", "Extend a complete file."),
    (
        "PW314",
        "memory latency out of range",
        "The global-memory latency is a positive number of cycles, at most a million.",
        "Correct --mem-latency or the machine file.",
    ),
    (
        "PW315",
        "machine without rules of occupancy",
        "How many blocks run at once depends on figures that this machine file does not give: its "
        "SMs, and the units in which registers and shared memory are handed out.",
        "Add a table [occupancy] (docs/machine-files.md), or give --sms and --resident-blocks.",
    ),
    (
        "PW316",
        "block too large for an SM",
        "A single block of the launch asks for more threads, registers or shared memory than an SM "
        "has, so the launch would fail.",
        "Launch smaller blocks, check --registers, or choose another machine.",
    ),
    # --- timing ---------------------------------------------------------------------------------
    (
        "PW401",
        "unknown opcode",
        "The opcode table has no row: registers, class and time are not known.",
        "Add a row to ptxwcet/ir/opcodes.py, or charge the slowest row: --on-unknown worst.",
    ),
    (
        "PW402",
        "operation without a timing",
        "The machine file refuses this op class, with its reason.",
        "Choose a machine that has a figure, or write a machine file with one.",
    ),
    (
        "PW403",
        "barrier form not proved",
        "Sections are bounded for barriers at which all warps of the block wait.",
        "Use __syncthreads().",
    ),
    (
        "PW404",
        "timing does not settle",
        "The warp's timing did not become periodic within the work limit.",
        "Lower the loop bounds, or bound the kernel in parts.",
    ),
    # --- launch files and runs ------------------------------------------------------------------
    (
        "PW410",
        "instruction not executed",
        "The emulator has no semantics for the instruction or its form.",
        "Bounds do not need it; only a functional run does.",
    ),
    (
        "PW411",
        "too many instructions",
        "The run reached --max-instructions; it may never end.",
        "See the loop named, or raise --max-instructions.",
    ),
    (
        "PW412",
        "argument does not fit the kernel",
        "Number or size of the arguments differs from the parameters.",
        "Give one argument a parameter, each of its size.",
    ),
    (
        "PW413",
        "initialiser not read",
        "A module variable is initialised with names, with rows that are not full, or with numbers "
        "that do not fit its type.",
        "Give its bytes in the launch file.",
    ),
    (
        "PW414",
        "impossible launch",
        "Blocks have 1 to 1024 threads, grids at least one block.",
        "Correct block and grid.",
    ),
    (
        "PW420",
        "launch file or array unreadable",
        "A launch file, or a .npy file that it names, cannot be read.",
        "Paths in a launch file are relative to its folder.",
    ),
    ("PW421", "launch file is not TOML", _NOT_TOML, "Correct it at that place."),
    (
        "PW422",
        "unknown name in a launch file",
        "Keys, parameters, variables and results are checked: a misspelt one is not ignored.",
        "Use one of the names listed; CUDA names need the .cu beside the .ptx, or --source.",
    ),
    (
        "PW423",
        "launch file incomplete",
        "Grid, block and an argument for every parameter are needed; nothing has a default.",
        "Add what is missing.",
    ),
    (
        "PW424",
        "malformed entry of a launch file",
        "A value has the wrong type or form, or a grid or block is empty.",
        "See docs/launch-files.md.",
    ),
    (
        "PW425",
        "argument does not fit",
        "An array or number does not fit its parameter, its type, its file or its size limit.",
        "Compare shape, dtype and value with the kernel's parameter.",
    ),
    (
        "PW426",
        "contradiction of the launch file",
        "An option or a facts file says something else than the launch file.",
        "Leave one of them out, or let both say the same.",
    ),
    (
        "PW427",
        "executed paths without inputs",
        "--executed needs a launch file; loop bounds and facts have no effect beside it.",
        "Give --launch, and leave --loop-bound and --facts out.",
    ),
    (
        "PW428",
        "result not as expected",
        "After the run an array differs from the launch file's expected one by more than the "
        "tolerance.",
        "Find the first wrong element's thread, or correct expectation and tolerance.",
    ),
    (
        "PW429",
        "cannot write results",
        "The file for results or paths cannot be written. Nothing is left half-written.",
        "Choose a folder that can be written.",
    ),
    (
        "PW430",
        "access out of bounds",
        "A thread accessed memory outside every allocation.",
        "Check index and size at that line.",
    ),
    (
        "PW431",
        "misaligned access",
        "An address is no multiple of the size of the access.",
        "Check the pointer arithmetic.",
    ),
    (
        "PW432",
        "uninitialised read",
        "Shared or local memory was read before it was written.",
        "Write it first, with a barrier between.",
    ),
    (
        "PW433",
        "barrier deadlock",
        "Warps wait at a barrier that no other warp will reach.",
        "All threads must reach the same barrier.",
    ),
    (
        "PW434",
        "shared-memory race",
        "Two warps accessed the same bytes of shared memory, one wrote, with no barrier between; "
        "or lanes of one warp stored different values at one address in one instruction.",
        "Put __syncthreads() between, or let one lane write.",
    ),
    (
        "PW435",
        "integer division by zero",
        "The result is unspecified.",
        "Check the divisor.",
    ),
    (
        "PW436",
        "barrier in divergent code",
        "Only a part of a warp's lanes executes the barrier.",
        "Move it out of the branch.",
    ),
    (
        "PW437",
        "warp exchange without all its lanes",
        "A lane outside the member mask executes it, a lane that the mask names does not execute "
        "it together with the others, a shuffle reads a lane that takes no part, or lanes give "
        "wmma different addresses or strides: what it gives is undefined. Lanes that part at a "
        "branch meet again here only where all its paths to the end of the kernel pass: a return "
        "inside keeps them apart, which a GPU might not.",
        "Name the lanes that execute it in the mask, or move it out of the branch; give wmma the "
        "address of the tile in all lanes.",
    ),
    (
        "PW438",
        "asynchronous copy not waited for",
        "What an asynchronous copy writes was read or written, or what it reads was written, "
        "before a wait that covers it.",
        "Commit its group and wait for it (then a barrier, for other threads), or wait for the "
        "phase of its mbarrier.",
    ),
    (
        "PW439",
        "trap or failed assertion",
        "A thread executed trap, brkpt or a failed assertion.",
        "The kernel found an error of its own: see the source line.",
    ),
    (
        "PW440",
        "branch outside of its table",
        "The index of brx.idx is not less than the number of its targets.",
        "Check the value before the branch.",
    ),
    (
        "PW441",
        "mbarrier misused",
        "No mbarrier object is at the address, its count is out of range, more threads arrive than "
        "the phase expects, or more bytes are owed than it can count.",
        "Initialise it once, with the number of arrivals of a phase, and a barrier after it.",
    ),
    # --- bounds ---------------------------------------------------------------------------------
    (
        "PW501",
        "barrier inside an undecided part",
        "The warps of the block might meet different barriers.",
        "Decide the loop or branch around the barrier with facts.",
    ),
    (
        "PW502",
        "mismatched barriers",
        "Warps of the block wait at different barriers, or different numbers of them: a deadlock.",
        "All warps must meet the same sequence of barriers.",
    ),
    (
        "PW503",
        "barriers cannot be aligned",
        "The warps repeat their barriers in patterns without a small common period.",
        "Make the loops around barriers the same for all warps.",
    ),
    (
        "PW504",
        "barrier of a part of the block",
        "No bound is proved for barriers at which only some warps of the block meet.",
        "Simulate the block, or use a barrier of the whole block.",
    ),
    ("PW520", "over the budget", "The bound exceeds --budget.", "Optimise, or raise the budget."),
    (
        "PW521",
        "guarantee too weak",
        "An assumption of the bound is doubtful on this machine, so it is only an estimate.",
        "Use a machine file whose assumptions hold, or lower --require.",
    ),
    (
        "PW530",
        "unknown policy",
        "No warp scheduler has this name.",
        "Choose one of the names that the message lists.",
    ),
    (
        "PW531",
        "impossible jitter",
        "Timings can be shortened by 0 to 100 percent of their length.",
        "Give a number from 0 to 100.",
    ),
    (
        "PW532",
        "deadlock",
        "Warps wait at a barrier that the others can no longer reach.",
        "Make all warps meet the same barriers.",
    ),
    (
        "PW533",
        "run too long",
        "The run needs more steps than its limit, and its state does not repeat.",
        "Raise the limit, or lower the trip counts or the memory latency.",
    ),
    (
        "PW534",
        "too many schedules",
        "The exhaustive search would explore more states than its cap.",
        "Search a smaller block, or raise the cap.",
    ),
    (
        "PW535",
        "bound exceeded",
        "A run contradicts a bound: a bug of ptxwcet, or a machine that breaks its ledger.",
        "Please report the witness schedule with the input.",
    ),
    (
        "PW536",
        "not schedulable as known",
        "The claim of a known schedule needs one known path and exact timings.",
        "Give the facts that decide all branches, and a machine with exact timings.",
    ),
    (
        "PW537",
        "no warps",
        "A block without warps has no run.",
        "Give the block at least one thread.",
    ),
    (
        "PW538",
        "executed path outside of the analysed ones",
        "An execution took a path that path extraction did not find: its bounds may be wrong.",
        "Report it: this is a bug of ptxwcet.",
    ),
    (
        "PW539",
        "executed path too long to compare",
        "Executed and analysed paths are compared basic block by basic block.",
        "Give a smaller launch.",
    ),
    (
        "PW540",
        "no range for a formula",
        "A formula holds in a stated range of its parameter, and none is stated.",
        "Give one with the option: --symbolic n=1..4096.",
    ),
    (
        "PW541",
        "not a parameter for a formula",
        "A bound can be a formula of one scalar integer parameter.",
        "Name an integer parameter, or give the parameter a value.",
    ),
    (
        "PW542",
        "symbolic parameter with a value",
        "The parameter that is to stay open has a single value by another option or file.",
        "Leave out one of both, or state a range of at least two values.",
    ),
    (
        "PW543",
        "no formula",
        "No repeat of the state is established for the range, or the bound is not linear in it.",
        "Ask for a smaller range, or bound single values with --param.",
    ),
    (
        "PW545",
        "totals that cannot be kept",
        "A run is simulated along a way through the program that keeps all stated totals, and none "
        "was found: the totals may contradict each other.",
        "Check the totals of the facts file.",
    ),
    (
        "PW546",
        "fact contradicted",
        "In an execution a warp did more in its run than a total of a facts file allows: bounds "
        "that rest on it do not hold for this input.",
        "Correct the fact.",
    ),
    (
        "PW560",
        "no kernel string",
        "A kernel string is letters: L an instruction for a load/store unit, C one for a core.",
        "Give L and C only, at least one letter.",
    ),
    (
        "PW561",
        "not a machine of the makespan",
        "There is at least one warp; a kind of unit serves a whole number of warps a slot, or 1/n.",
        "Give --warps of at least 1 and capacities such as 1, 2 or 1/2.",
    ),
    (
        "PW562",
        "no single kernel string",
        "The makespan is defined for warps that all execute one known string of instructions.",
        "Give the parameters or facts that decide branches and loops.",
    ),
    (
        "PW563",
        "unit that is neither L nor C",
        "The makespan knows load/store units and cores; what another unit is, is not guessed.",
        "Say it with --unit NAME=L or NAME=C, or in the [makespan] table of the machine file.",
    ),
    (
        "PW564",
        "too large for a method",
        "The string, the table of states or the integer program is larger than the method takes.",
        "Give fewer warps, or use exact, closed-form or pessimistic.",
    ),
    (
        "PW565",
        "method does not apply",
        "The closed form and the safe extrapolation need one warp a slot on each kind of unit.",
        "Use the method exact.",
    ),
    (
        "PW566",
        "nothing to do in no time",
        "A time limit or a number of warps to start from is zero or less.",
        "Give a positive one.",
    ),
    (
        "PW567",
        "no picture of a schedule",
        "The method gives no schedule, or one too large to draw.",
        "Use exact, states, closed-form or ilp, with fewer warps.",
    ),
    # --- traces ---------------------------------------------------------------------------------
    (
        "PW600",
        "cannot read a trace",
        "The file of a timed trace does not exist or cannot be read.",
        "Check its name.",
    ),
    (
        "PW601",
        "malformed trace",
        "A line or column is not what the format of timed traces has at this place.",
        "See docs/trace-format.md; do not edit traces by hand.",
    ),
    (
        "PW602",
        "cut trace",
        "The file ends early: its last line, or events that it announces, are missing.",
        "Record it again, or copy it again whole.",
    ),
    (
        "PW603",
        "empty trace",
        "The trace, or one of its runs, holds no events.",
        "Record at least one run of the kernel; leave empty runs out.",
    ),
    (
        "PW604",
        "unknown ipoint",
        "An event names an instrumentation point that the table of the trace does not have.",
        "Record the trace again: table and events do not belong together.",
    ),
    (
        "PW605",
        "time going backwards",
        "An event of a warp has an earlier time than the event before it in the same warp.",
        "Record the trace again; times of a run must be of one clock.",
    ),
    (
        "PW606",
        "warp without start or end",
        "The events of a warp do not begin at the kernel's entry, or do not reach its end: the "
        "trace lacks events.",
        "Record the trace again, or leave that run out.",
    ),
    (
        "PW607",
        "trace of another kernel",
        "Kernel name, digest of the PTX file or table of ipoints do not fit the file given.",
        "Give the PTX file that was traced, or record the trace again.",
    ),
    (
        "PW608",
        "impossible transition",
        "A warp passes from one ipoint to another although no path of the kernel, diverged or "
        "not, leads there.",
        "The trace lacks events, or its GPU joins diverged threads elsewhere: see "
        "docs/methods/hybrid.md.",
    ),
    (
        "PW609",
        "cannot write a trace",
        "The file cannot be written, or its name does not say in which form.",
        "Choose a name that ends in .csv or .npz, in a folder that can be written.",
    ),
    (
        "PW610",
        "warp number used twice",
        "A warp goes on after its end, or is on two multiprocessors.",
        "Number the warps of a run so that no two share a number.",
    ),
    (
        "PW611",
        "unknown version of the trace format",
        "The trace was written by another version of ptxwcet.",
        "Record it again with this version.",
    ),
    (
        "PW612",
        "ipoints missing",
        "The table of ipoints lacks the kernel's entry or its end, or names a block twice.",
        "Instrument the entry and the end of the kernel.",
    ),
    (
        "PW613",
        "no estimate",
        "The integer program of the warp-specific WCET has no answer.",
        "See the reason in the message; please report the trace.",
    ),
    (
        "PW614",
        "nothing to analyse",
        "Hybrid analysis starts from timed traces, and there is neither a trace nor a launch to "
        "trace.",
        "Give --trace, or --launch to trace here.",
    ),
    (
        "PW615",
        "exceedance out of range",
        "Profiles give quantiles for probabilities from 1e-9 to below 1: rarer times cannot be "
        "told from rounding.",
        "Give a probability in that range.",
    ),
    (
        "PW650",
        "cannot be instrumented",
        "The file is for an ISA or GPU without activemask, not for 64-bit addresses, a "
        "kernel has no room for two more parameters or too many blocks, or a function that "
        "it calls ends threads.",
        "Do what the message says; most of it is compiling for a newer target.",
    ),
    (
        "PW651",
        "no such place for a point",
        "The kernel has no block that it can reach with this label or on this line.",
        "Give one of the labels that the message lists, or a line of the PTX file with an "
        "instruction.",
    ),
    (
        "PW652",
        "not a description of instrumented PTX",
        "The file is not the JSON that ptxwcet instrument writes beside the instrumented PTX.",
        "Give that file, unchanged.",
    ),
    (
        "PW653",
        "instrumented file and description differ",
        "The PTX file is not the one whose digest the description has: one of both was "
        "changed or made anew.",
        "Instrument the original again, and use both files that this writes.",
    ),
    (
        "PW654",
        "not a dump",
        "The file does not begin with the header of a dump, its version is another one, or "
        "its header has impossible values.",
        "Copy the buffer from the device from its first byte on; prepare it as "
        "docs/instrumentation.md says.",
    ),
    (
        "PW655",
        "dump cut off",
        "The file ends before the last record that the kernel wrote.",
        "Copy the whole buffer from the device.",
    ),
    (
        "PW656",
        "dump of another kernel",
        "The dump carries the identity of another instrumented file or kernel, or dumps of "
        "different kernels or clocks are imported together.",
        "Give the description that was written with the PTX that ran, and dumps of one kernel.",
    ),
    (
        "PW657",
        "buffer too small or too large",
        "The kernel wanted to write more than the buffer holds, so records are lost and nothing is "
        "used; or it has no room for every warp; or the machine has no memory for it.",
        "Give another size (--buffer-mib), or instrument fewer points (--at).",
    ),
    (
        "PW658",
        "impossible record",
        "A record names a point or warp that the kernel does not have, or lies where none is "
        "written.",
        "Zero the buffer before the launch, and copy it after the kernel has ended.",
    ),
    (
        "PW659",
        "warp without start or end",
        "A warp has no record of its entry or of its end: the kernel did not run to its end, "
        "or the dump was taken too early.",
        "Copy the buffer after the kernel has ended without an error.",
    ),
    (
        "PW660",
        "contradictory times of a warp",
        "Times of a warp go backwards, two of its records have one time, or it changed its "
        "multiprocessor: its clock cannot be trusted.",
        "Record again, with no other work, debugger or profiler on the GPU.",
    ),
    (
        "PW661",
        "no run on a GPU",
        "The driver's bindings are not installed, or the driver refused the kernel or "
        "reported a fault.",
        "Install the extra gpu and a driver as new as the PTX; or record with the emulator.",
    ),
    (
        "PW662",
        "cannot read a dump or description",
        "The file cannot be opened.",
        "Check the path.",
    ),
    (
        "PW663",
        "cannot write",
        "An instrumented file, its description or a dump cannot be written.",
        "Check the folder, its permissions and its room.",
    ),
    (
        "PW690",
        "trace too long",
        "Each event takes about 60 bytes of memory while a trace is made. How many there will be "
        "is known before the launch is timed.",
        "Trace a smaller launch or fewer runs, or raise --max-events.",
    ),
    (
        "PW691",
        "runs that would be the same",
        "Several runs are asked for, but no array of the launch file is drawn at random, and "
        "neither the policy nor jitter is: every run would have the same events.",
        "Give an array a seed, or trace with --jitter or --policy random.",
    ),
    (
        "PW692",
        "nothing to trace",
        "The kernel has no instructions, so no warp enters a basic block.",
        "Trace another kernel.",
    ),
    # --- statistics ----------------------------------------------------------------------------
    (
        "PW701",
        "cannot read measurements",
        "The file does not exist, cannot be read, or is neither text columns nor a "
        "one-dimensional .npy array of numbers.",
        "Check path and format: docs/methods/pwcet.md.",
    ),
    (
        "PW702",
        "malformed line of measurements",
        "A line has other columns than the first one, or holds text where a time should be.",
        "Write a time a line, decimals with a point; a first line may name the columns.",
    ),
    (
        "PW703",
        "unit not known or mixed",
        "Times are in cycles or in ns, all of them, and nothing is taken for the unit by default.",
        "Give --unit, or name the column time_cycles or time_ns; convert times of another unit.",
    ),
    (
        "PW704",
        "not an execution time",
        "A time is NaN, infinite, zero or negative.",
        "Leave failed runs out, and count them.",
    ),
    (
        "PW705",
        "too few times",
        "A law of extremes needs at least 40 extremes: 1,000 times for blocks of 25.",
        "Measure more runs, or choose smaller blocks or a lower threshold.",
    ),
    (
        "PW706",
        "times without a tail",
        "All times are the same, or all of the largest ones are: no law can be fitted.",
        "Check how times were taken; take them more finely.",
    ),
    (
        "PW707",
        "column or condition not known",
        "The column of the times is not evident, a column or condition that was named does "
        "not exist, or a condition is in two files.",
        "Name it with --column or --condition-column; see the columns that the message lists.",
    ),
    (
        "PW708",
        "malformed clock pairs",
        "A clock is no value of a counter of that width, or an SM has two pairs in one run.",
        "Write a row for each SM and run; give --counter-bits 64 for clock64.",
    ),
    (
        "PW709",
        "cannot write",
        "The page, a picture or the times cannot be written.",
        "Choose a folder that can be written.",
    ),
    (
        "PW710",
        "no probabilistic WCET",
        "Hypothesis tests reject what extreme value theory needs: the curve would be an invention.",
        "See which test rejected and docs/methods/pwcet.md; --force prints the curve, marked.",
    ),
    (
        "PW711",
        "tail too heavy",
        "The fitted shape xi is 1 or more: such a law has no mean, and its far levels are many "
        "orders of magnitude beyond anything measured. Rare runs of another kind, mixed with the "
        "usual ones, look like this.",
        "Look for what the longest runs have in common, and measure them as a condition apart.",
    ),
    (
        "PW712",
        "interval without an end",
        "The times are compatible with tails so heavy that the confidence interval of a level has "
        "no end: nothing is known of that level.",
        "Measure more runs, or ask for larger probabilities.",
    ),
    (
        "PW713",
        "heavy tail",
        "The fitted shape xi is 0.5 or more: the law has no variance, and far levels are guesses. "
        "The claim is weakened to an estimate.",
        "Measure more runs, and look for runs of another kind among the longest ones.",
    ),
    (
        "PW714",
        "pWCET above the static bound",
        "The upper end of the interval at a probability lies above the static bound of the same "
        "kernel. If the bound holds, no run takes longer than it.",
        "Take the static bound there; if it was stated by hand, check it.",
    ),
    (
        "PW715",
        "observed time above the static bound",
        "A measured time is longer than the static bound given for it, which is thereby not a "
        "bound of these runs.",
        "Check that kernel, launch, clock and machine of the bound are those of the runs.",
    ),
    # --- internal -------------------------------------------------------------------------------
    (
        "PW900",
        "internal inconsistency",
        "The verifier found an inconsistency in the program representation: a bug of ptxwcet.",
        "Please report it with the input.",
    ),
    (
        "PW901",
        "internal error",
        "A bug of ptxwcet. Where a kernel is named, it costs this kernel only; where a function "
        "is, the kernels that call it.",
        "Please report it with the input; PTXWCET_TRACEBACK=1 shows where it happened.",
    ),
)
