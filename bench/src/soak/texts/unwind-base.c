int fuel;
unsigned sum = 17;
__thread int in_thread;
__thread sem_t *ready;
NOINLINE unsigned simple(unsigned a, unsigned b) { return *(volatile unsigned *)&a * 3u + b; }
NOINLINE void spin(void) { volatile unsigned n = 0; pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0); sem_post(ready); for (;;) n++; }
__asm__(".pushsection .text\n"
  ".globl call_by_assembly\n.type call_by_assembly,@function\ncall_by_assembly:\n.cfi_startproc\nsub $8,%rsp\n.cfi_def_cfa_offset 16\ncall *%rdx\n"
  "add $8,%rsp\n.cfi_def_cfa_offset 8\nret\n.cfi_endproc\n.size call_by_assembly,.-call_by_assembly\n"
  ".globl jump_by_assembly\n.type jump_by_assembly,@function\njump_by_assembly:\n.cfi_startproc\njmp *%rdx\n.cfi_endproc\n.size jump_by_assembly,.-jump_by_assembly\n"
  ".globl return_by_assembly\n.type return_by_assembly,@function\nreturn_by_assembly:\n.cfi_startproc\npush %rdx\n.cfi_def_cfa_offset 16\nret\n"
  ".cfi_endproc\n.size return_by_assembly,.-return_by_assembly\n.popsection\n");
