// libraries: -l:libzstd.a -lpthread
// prints: round trip of 20000 bytes: same
// Compression and decompression of a whole buffer.
#include <stdio.h>
#include <string.h>
#include <zstd.h>

static char plain[20000], packed[30000], back[20000];

int main(void) {
    for (unsigned i = 0; i < sizeof plain; i++) plain[i] = (char)(i * i % 97);
    size_t size = ZSTD_compress(packed, sizeof packed, plain, sizeof plain, 3);
    size_t out = ZSTD_isError(size) ? 0 : ZSTD_decompress(back, sizeof back, packed, size);
    int failed = out != sizeof plain || memcmp(plain, back, sizeof plain);
    printf("round trip of %zu bytes: %s\n", out, failed ? "different" : "same");
    return failed;
}
