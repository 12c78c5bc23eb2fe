        .section .text.f,"ax",@progbits
        f: nop
        .section kept,"awR",@progbits
        .quad 1
        .section after_f,"ao",@progbits,.text.f
        .quad 2
        .section .text.g,"ax",@progbits
        .reloc 0, R_X86_64_NONE, kept_too
        call callee@PLT
        movq var@GOTPCREL(%rip), %rax
        .section .rodata.v,"a",@progbits
        .reloc ., R_X86_64_PLT32, callee
        .long 0
        .section .note.x,"a",@note
        .long 1
        .section .fini,"ax",@progbits
        nop
        .section .ctors.00100,"aw",@progbits
        .quad f
        