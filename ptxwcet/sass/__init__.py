"""Front end of machine code: cubins, listed by the vendor's disassembler."""
