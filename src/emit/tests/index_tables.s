.section .text._start,"ax",@progbits
.globl _start
_start: call a
call b
ud2
.section .text.dead,"ax",@progbits
.globl dead
dead: call c
ud2
.section .text.a,"ax",@progbits
.globl a
a: ret
.section .text.b,"ax",@progbits
.globl b
b: ret
.section .text.c,"ax",@progbits
.globl c
c: ret
.cg_profile _start, a, 10
.cg_profile dead, c, 20
.cg_profile dead, a, 30
.cg_profile _start, b, 40
.addrsig
.addrsig_sym dead
.addrsig_sym b
.addrsig_sym c
.addrsig_sym a
