// libraries: -l:libzstd.a -lpthread
// prints: refused: Unknown frame descriptor
// Decompression alone.
#include <stdio.h>
#include <zstd.h>

int main(void) {
    char out[64];
    size_t size = ZSTD_decompress(out, sizeof out, "not compressed at all", 21);
    printf("%s: %s\n", ZSTD_isError(size) ? "refused" : "taken", ZSTD_getErrorName(size));
    return 0;
}
