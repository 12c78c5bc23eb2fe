// Runs kernel() on a stack that is filled with a pattern, and prints the distance from the top to the lowest byte that changed.
//
// The top is the canonical frame address of kernel(). A second run with another pattern finds bytes that were written with the first one.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { SIZE = 16 << 20 };

long kernel(long argument);

static long run_on(char *top, long argument) {
    long result;
    __asm__ volatile("mov %%rsp, %%rbx\n\tmov %[top], %%rsp\n\tcall kernel\n\tmov %%rbx, %%rsp"
                     : "=a"(result), "+D"(argument)
                     : [top] "r"(top)
                     : "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "cc", "memory");
    return result;
}

int main(void) {
    char *stack = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) return 1;
    long deepest = 0, result = 0;
    for (int pattern = 0x5a; pattern <= 0xa5; pattern += 0xa5 - 0x5a) {
        memset(stack, pattern, SIZE);
        result = run_on(stack + SIZE, 7);
        long unchanged = 0;
        while (unchanged < SIZE && (unsigned char)stack[unchanged] == pattern) unchanged++;
        if (SIZE - unchanged > deepest) deepest = SIZE - unchanged;
    }
    printf("%ld %ld\n", deepest, result);
    return 0;
}
