#define _GNU_SOURCE
#include <link.h>
#include <stdio.h>
static int one(struct dl_phdr_info *i, size_t s, void *d) {
    for (int k = 0; k < i->dlpi_phnum; k++)
        if (i->dlpi_phdr[k].p_type == PT_GNU_EH_FRAME) printf("%zu bytes\n", (size_t)i->dlpi_phdr[k].p_memsz);
    return 1;
}
int main(void) { return dl_iterate_phdr(one, 0) - 1; }
