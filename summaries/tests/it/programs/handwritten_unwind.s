        .section .text.f,"ax"; f: ret
        .section .text.g,"ax"; g: ret
        .section .eh_frame,"a",@progbits
        .long 0xffffffff; .quad 16; .long 0; .quad personality; .long 0
        .long 16; .long 32; .long f - .; .long 1; .long 0
        .section .eh_frame,"a",@unwind,unique,1
        .long 12; .long 0; .long 0; .long 0
        .long 16; .long 20; .long g - .; .long 1; .long lsda
        