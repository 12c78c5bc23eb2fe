#include <link.h>
#include <stdio.h>
extern const char __ehdr_start[];
int main(void) {
    const ElfW(Ehdr) *e = (const void *)__ehdr_start;
    const ElfW(Phdr) *p = (const void *)(__ehdr_start + e->e_phoff);
    for (int k = 0; k < e->e_phnum; k++)
        if (p[k].p_type == PT_GNU_EH_FRAME) printf("%zu bytes\n", (size_t)p[k].p_memsz);
    return 0;
}
