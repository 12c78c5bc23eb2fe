#define ASM __asm__ volatile
__attribute__((noinline)) void big(long a) { char b[20000]; ASM("movq %%rdi,(%0)" :: "r"(b) : "memory"); }
__attribute__((used, noinline)) void small(long a) { ASM(""); }
#define CHANGED "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc"
