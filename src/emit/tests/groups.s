.section .text._start,"ax",@progbits
.globl _start
_start: call f
.section .text.f,"axG",@progbits,sig,comdat
.weak f
f: ret
.section .text.g,"axG",@progbits,sig,comdat
.weak g
g: call f
.section .text.h,"axG",@progbits,h,comdat
.weak h
h: call f
.section .text.i,"axG",@progbits,i,comdat
.weak i
i: ret
.section .data.i,"awG",@progbits,i,comdat
.weak j
j: .quad i
.section .text._start
.quad j-.
